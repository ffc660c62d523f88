// RMSNorm alone and behind the residual add, LayerNorm, bias gradient.
#include "kernels/norms/norms.h"
#include "bench/kernels/cuda/harness.h"
#include "kernels/products/bias.h"

namespace coxswain::kernels::bench {
namespace {

// Bytes of `passes` reads or writes of a [tokens, hidden] tensor.
double Passes(const Shape& m, double passes) {
  return passes * 2.0 * static_cast<double>(m.tokens * m.hidden);
}

void BenchRmsForward(Bench* bench, const Shape& m, bool amax) {
  const RmsNormSpec spec{.dtype = kBF16, .hidden = m.hidden};
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = std::string("rms_norm forward") + WithAmax(amax),
               .extents = Extents(m.tokens, m.hidden),
               .bytes = Passes(m, 2),
               .make = [=](Memory* memory) -> Launch {
                 const RmsNormForwardArgs args{.spec = spec,
                                               .rows = m.tokens,
                                               .x = memory->BFloat16(n),
                                               .weight = memory->BFloat16(m.hidden),
                                               .y = memory->BFloat16(n),
                                               .rstd = memory->Floats(m.tokens),
                                               .amax = memory->Amax(amax)};
                 return [=](Stream* s) {
                   ClearAmax(args.amax, s);
                   RmsNormForward(args, s);
                 };
               }});
  bench->Time({.name = std::string("add_rms_norm forward") + WithAmax(amax),
               .extents = Extents(m.tokens, m.hidden),
               .bytes = Passes(m, 4),
               .make = [=](Memory* memory) -> Launch {
                 const AddRmsNormForwardArgs args{.spec = spec,
                                                  .rows = m.tokens,
                                                  .x = memory->BFloat16(n),
                                                  .residual = memory->BFloat16(n),
                                                  .weight = memory->BFloat16(m.hidden),
                                                  .sum = memory->BFloat16(n),
                                                  .y = memory->BFloat16(n),
                                                  .rstd = memory->Floats(m.tokens),
                                                  .amax = memory->Amax(amax)};
                 return [=](Stream* s) {
                   ClearAmax(args.amax, s);
                   AddRmsNormForward(args, s);
                 };
               }});
}

void BenchRmsBackward(Bench* bench, const Shape& m, bool accumulate, bool frozen, bool amax) {
  const RmsNormSpec spec{.dtype = kBF16, .hidden = m.hidden};
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = std::string("rms_norm backward") + (accumulate ? " accumulating" : "") +
                       (frozen ? " frozen weight" : "") + WithAmax(amax),
               .extents = Extents(m.tokens, m.hidden),
               .bytes = Passes(m, accumulate ? 4 : 3),
               .make = [=](Memory* memory) -> Launch {
                 const RmsNormBackwardArgs args{
                     .spec = spec,
                     .rows = m.tokens,
                     .dy = memory->BFloat16(n),
                     .x = memory->BFloat16(n),
                     .weight = memory->BFloat16(m.hidden),
                     .rstd = memory->Floats(m.tokens),
                     .accumulate_dx = accumulate,
                     .dx = memory->BFloat16(n),
                     .dweight = frozen ? nullptr : memory->Floats(m.hidden),
                     .amax = memory->Amax(amax),
                     .workspace = memory->Scratch(RmsNormBackwardWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) {
                   ClearAmax(args.amax, s);
                   RmsNormBackward(args, s);
                 };
               }});
}

void BenchLayerNorm(Bench* bench, const Shape& m) {
  const LayerNormSpec spec{.dtype = kBF16, .hidden = m.hidden};
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = "layer_norm forward",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = Passes(m, 2),
               .make = [=](Memory* memory) -> Launch {
                 const LayerNormForwardArgs args{.spec = spec,
                                                 .rows = m.tokens,
                                                 .x = memory->BFloat16(n),
                                                 .weight = memory->BFloat16(m.hidden),
                                                 .bias = memory->BFloat16(m.hidden),
                                                 .y = memory->BFloat16(n),
                                                 .mean = memory->Floats(m.tokens),
                                                 .rstd = memory->Floats(m.tokens)};
                 return [=](Stream* s) { LayerNormForward(args, s); };
               }});
  bench->Time({.name = "layer_norm backward accumulating",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = Passes(m, 4),
               .make = [=](Memory* memory) -> Launch {
                 const LayerNormBackwardArgs args{
                     .spec = spec,
                     .rows = m.tokens,
                     .dy = memory->BFloat16(n),
                     .x = memory->BFloat16(n),
                     .weight = memory->BFloat16(m.hidden),
                     .mean = memory->Floats(m.tokens),
                     .rstd = memory->Floats(m.tokens),
                     .dx = memory->BFloat16(n),
                     .dweight = memory->Floats(m.hidden),
                     .dbias = memory->Floats(m.hidden),
                     .workspace = memory->Scratch(LayerNormBackwardWorkspaceBytes(spec, m.tokens))};
                 return [=](Stream* s) { LayerNormBackward(args, s); };
               }});
}

void BenchBias(Bench* bench, const Shape& m) {
  const BiasSpec spec{.dtype = kBF16};
  const int64_t columns = m.packed();
  bench->Time({.name = "bias backward qkv",
               .extents = Extents(m.tokens, columns),
               .bytes = 2.0 * static_cast<double>(m.tokens * columns),
               .make = [=](Memory* memory) -> Launch {
                 const BiasBackwardArgs args{
                     .spec = spec,
                     .rows = m.tokens,
                     .columns = columns,
                     .dy = memory->BFloat16(m.tokens * columns),
                     .ldy = columns,
                     .dbias = memory->Floats(columns),
                     .workspace =
                         memory->Scratch(BiasBackwardWorkspaceBytes(spec, m.tokens, columns))};
                 return [=](Stream* s) { BiasBackward(args, s); };
               }});
}

}  // namespace

void BenchNorms(Bench* bench) {
  for (const Shape& m : kShapes) {
    for (const bool amax : {false, true}) {
      BenchRmsForward(bench, m, amax);
      BenchRmsBackward(bench, m, /*accumulate=*/true, /*frozen=*/false, amax);
    }
    BenchRmsBackward(bench, m, /*accumulate=*/true, /*frozen=*/true, /*amax=*/false);
    BenchRmsBackward(bench, m, /*accumulate=*/false, /*frozen=*/false, /*amax=*/false);
    BenchLayerNorm(bench, m);
    BenchBias(bench, m);
  }
}

}  // namespace coxswain::kernels::bench
