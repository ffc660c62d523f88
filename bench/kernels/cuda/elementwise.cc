// Elementwise ops and plain reductions over as many elements as a micro-step's residual stream.
#include "bench/kernels/cuda/harness.h"
#include "kernels/activations/dropout.h"
#include "kernels/tensors/gradient_sum.h"
#include "kernels/tensors/whole_tensors.h"

namespace coxswain::kernels::bench {
namespace {

void BenchAdd(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = "add",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 6.0 * static_cast<double>(n),
               .make = [n](Memory* memory) -> Launch {
                 const AddArgs args{.dtype = kBF16,
                                    .x_dtype = kBF16,
                                    .count = n,
                                    .alpha = 1e-3f,
                                    .x = memory->BFloat16(n),
                                    .y = memory->BFloat16(n)};
                 return [=](Stream* s) { Add(args, s); };
               }});
}

// A term in float32, a gradient in bfloat16, and its companion.
void BenchGradientSum(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  for (const bool compensated : {false, true}) {
    bench->Time({.name = compensated ? "gradient sum compensated" : "gradient sum stochastic",
                 .extents = Extents(m.tokens, m.hidden),
                 .bytes = (compensated ? 12.0 : 8.0) * static_cast<double>(n),
                 .make = [=](Memory* memory) -> Launch {
                   const AddToGradientArgs args{
                       .count = n,
                       .term = memory->Floats(n),
                       .gradient = memory->BFloat16(n),
                       .sum = {.mode = compensated ? GradientSumMode::kCompensated
                                                   : GradientSumMode::kStochastic,
                               .companion = compensated ? memory->Zeros(2 * n) : nullptr,
                               .key = {1, 2}}};
                   return [=](Stream* s) { AddToGradient(args, s); };
                 }});
  }
}

void BenchScale(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  bench->Time(
      {.name = "scale",
       .extents = Extents(m.tokens, m.hidden),
       .bytes = 4.0 * static_cast<double>(n),
       .make = [n](Memory* memory) -> Launch {
         const ScaleArgs args{
             .dtype = kBF16, .count = n, .factor = memory->Floats(1), .x = memory->BFloat16(n)};
         return [=](Stream* s) { Scale(args, s); };
       }});
}

void BenchConvert(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  for (const bool up : {false, true}) {
    const DType from = up ? kBF16 : DType::kFloat32, to = up ? DType::kFloat32 : kBF16;
    bench->Time({.name = up ? "convert bf16 to fp32" : "convert fp32 to bf16",
                 .extents = Extents(m.tokens, m.hidden),
                 .bytes = 6.0 * static_cast<double>(n),
                 .make = [=](Memory* memory) -> Launch {
                   const ConvertArgs args{.from = from,
                                          .to = to,
                                          .count = n,
                                          .in = memory->Values(from, n),
                                          .out = memory->Zeros(n * DTypeBytes(to))};
                   return [=](Stream* s) { Convert(args, s); };
                 }});
  }
}

void BenchDropout(Bench* bench, const Shape& m) {
  bench->Time({.name = "dropout",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 4.0 * static_cast<double>(m.tokens * m.hidden),
               .make = [m](Memory* memory) -> Launch {
                 std::vector<uint32_t> bins, positions;
                 for (int64_t t = 0; t < m.tokens; ++t) {
                   bins.push_back(static_cast<uint32_t>(t / 1024));
                   positions.push_back(static_cast<uint32_t>(t % 1024));
                 }
                 const DropoutArgs args{
                     .spec = {.dtype = kBF16, .columns = m.hidden, .rate = 0.05f},
                     .mask = {.key = {1, 2},
                              .site = 3,
                              .step = memory->Upload<uint32_t>({7}),
                              .bins = memory->Upload(bins),
                              .positions = memory->Upload(positions)},
                     .rows = m.tokens,
                     .x = memory->BFloat16(m.tokens * m.hidden),
                     .y = memory->BFloat16(m.tokens * m.hidden)};
                 return [=](Stream* s) { DropoutApply(args, s); };
               }});
}

void BenchFill(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = "random_fill normal",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 2.0 * static_cast<double>(n),
               .make = [n](Memory* memory) -> Launch {
                 const RandomFillArgs args{.dtype = kBF16,
                                           .kind = RandomFillKind::kNormal,
                                           .value = 0.02,
                                           .count = n,
                                           .out = memory->Zeros(2 * n)};
                 return [=](Stream* s) { RandomFill(args, s); };
               },
               .note = "computed in double, once a job"});
}

void BenchReductions(Bench* bench, const Shape& m) {
  const int64_t n = m.tokens * m.hidden;
  bench->Time({.name = "checksum",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 2.0 * static_cast<double>(n),
               .make = [n](Memory* memory) -> Launch {
                 const ChecksumArgs args{.dtype = kBF16,
                                         .count = n,
                                         .values = memory->BFloat16(n),
                                         .sum = static_cast<uint64_t*>(memory->Zeros(8))};
                 return [=](Stream* s) { Checksum(args, s); };
               }});
  bench->Time({.name = "all_zero",
               .extents = Extents(m.tokens, m.hidden),
               .bytes = 2.0 * static_cast<double>(n),
               .make = [n](Memory* memory) -> Launch {
                 const AllZeroArgs args{.dtype = kBF16,
                                        .count = n,
                                        .values = memory->Zeros(2 * n),
                                        .all_zero = memory->Upload<int32_t>({1})};
                 return [=](Stream* s) { AllZero(args, s); };
               }});
  bench->Time({.name = "sum",
               .extents = std::to_string(m.tokens),
               .bytes = 4.0 * static_cast<double>(m.tokens),
               .make = [m](Memory* memory) -> Launch {
                 const SumArgs args{.count = m.tokens,
                                    .values = memory->Floats(m.tokens),
                                    .sum = static_cast<double*>(memory->Zeros(8))};
                 return [=](Stream* s) { Sum(args, s); };
               },
               .note = "one launch's latency"});
}

}  // namespace

void BenchElementwise(Bench* bench) {
  for (const Shape& m : kShapes) {
    BenchAdd(bench, m);
    BenchGradientSum(bench, m);
    BenchScale(bench, m);
    BenchConvert(bench, m);
    BenchDropout(bench, m);
    BenchFill(bench, m);
    BenchReductions(bench, m);
  }
}

}  // namespace coxswain::kernels::bench
