// The gated products of an MLP as tuning chooses them, beside the product and the pass over its
// output in two launches. The backward runs in place: its operands change from launch to launch.
#include "kernels/products/gated_linear.h"
#include "bench/kernels/cuda/harness.h"
#include "kernels/products/gemm.h"
#include "kernels/products/plain_products.h"

namespace coxswain::kernels::bench {
namespace {

struct Mlp {
  const char* model;
  int64_t tokens, hidden, intermediate;
};
// Qwen2.5.
constexpr Mlp kMlps[] = {
    {"0.5b", 32768, 896, 4864}, {"1.5b", 32768, 1536, 8960}, {"7b", 4096, 3584, 18944}};

GatedLinearSpec SpecOf(const Mlp& m) {
  return {.dtype = DType::kBFloat16, .hidden = m.hidden, .intermediate = m.intermediate};
}
std::string ExtentsOf(const Mlp& m, int64_t columns) {
  return Extents(m.tokens, columns) + " x " + std::to_string(m.hidden);
}
double Flops(const Mlp& m, int64_t columns) {
  return 2.0 * static_cast<double>(m.tokens) * static_cast<double>(columns) *
         static_cast<double>(m.hidden);
}

void BenchForward(Bench* bench, const Mlp& m, const char* choice,
                  void (*launch)(const GatedLinearForwardArgs&, Stream*)) {
  const int64_t n = m.intermediate;
  bench->Time({.name = std::string("gated ") + m.model + " forward " + choice,
               .extents = ExtentsOf(m, 2 * n),
               .flops = Flops(m, 2 * n),
               .make = [=](Memory* memory) -> Launch {
                 const GatedLinearForwardArgs args{
                     .spec = SpecOf(m),
                     .rows = m.tokens,
                     .x = memory->BFloat16(m.tokens * m.hidden),
                     .weight = memory->BFloat16(2 * n * m.hidden),
                     .gate_up = memory->BFloat16(m.tokens * 2 * n),
                     .y = memory->BFloat16(m.tokens * n),
                     .workspace = memory->Scratch(GemmWorkspaceBytes())};
                 return [=](Stream* s) { launch(args, s); };
               }});
}

void BenchBackward(Bench* bench, const Mlp& m, const char* choice, bool wants_y,
                   void (*launch)(const GatedLinearBackwardArgs&, Stream*)) {
  const int64_t n = m.intermediate;
  bench->Time({.name = std::string("gated ") + m.model + " backward" +
                       (wants_y ? " with y " : " ") + choice,
               .extents = ExtentsOf(m, n),
               .flops = Flops(m, n),
               .make = [=](Memory* memory) -> Launch {
                 const GatedLinearBackwardArgs args{
                     .spec = SpecOf(m),
                     .rows = m.tokens,
                     .dout = memory->BFloat16(m.tokens * m.hidden),
                     .weight = memory->BFloat16(m.hidden * n),
                     .gate_up = memory->BFloat16(m.tokens * 2 * n),
                     .y = memory->BFloat16(m.tokens * n),
                     .wants_y = wants_y,
                     .workspace = memory->Scratch(GemmWorkspaceBytes())};
                 return [=](Stream* s) { launch(args, s); };
               }});
}

}  // namespace

void BenchGatedLinear(Bench* bench) {
  SetGemmTuning(true);
  for (const Mlp& m : kMlps) {
    BenchForward(bench, m, "in two", PlainGatedLinearForward);
    BenchForward(bench, m, "chosen", GatedLinearForward);
    for (const bool wants_y : {false, true}) {
      BenchBackward(bench, m, "in two", wants_y, PlainGatedLinearBackward);
      BenchBackward(bench, m, "chosen", wants_y, GatedLinearBackward);
    }
  }
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
