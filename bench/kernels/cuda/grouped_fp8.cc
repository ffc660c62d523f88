// The linears of 128 experts of Qwen3-30B-A3B in FP8, beside `grouped` of the same rows in
// bfloat16: forward with rows in E4M3, the gradient of the rows with dy in E5M2; and their weights,
// and rows of 8 experts a token, made into codes. Operands are read twice to be quantised, which
// `bytes` does not count.
#include <string>
#include <vector>

#include "bench/kernels/cuda/expert_rows.h"
#include "bench/kernels/cuda/harness.h"
#include "kernels/experts/grouped_fp8_linear.h"
#include "kernels/quantize/fp8.h"

namespace coxswain::kernels::bench {
namespace grouped_fp8 {
namespace {

constexpr int64_t kExperts = 128;

struct Product {
  const char* name;
  Fp8Format rows;
  int64_t in, out;  // of the product
};
constexpr Product kProducts[] = {{"gate_up", Fp8Format::kE4M3, 2048, 1536},
                                 {"down", Fp8Format::kE4M3, 768, 2048},
                                 {"gate_up dgrad", Fp8Format::kE5M2, 1536, 2048},
                                 {"down dgrad", Fp8Format::kE5M2, 2048, 768}};
constexpr int64_t kMeans[] = {2048, 512};

struct Spread {
  const char* name;
  std::vector<int32_t> offsets;
};

// Codes of normal values: so many matrices, each with a scale.
Fp8Straight Quantised(Fp8Format format, int64_t matrices, int64_t rows, int64_t cols,
                      Memory* memory) {
  Fp8QuantizeArgs args{.dtype = kBF16,
                       .format = format,
                       .rows = rows,
                       .cols = cols,
                       .matrices = matrices,
                       .x = memory->BFloat16(matrices * rows * cols),
                       .ldx = cols};
  args.straight = {static_cast<uint8_t*>(memory->Zeros(matrices * rows * Fp8Stride(cols))),
                   memory->Floats(matrices)};
  args.workspace = memory->Scratch(matrices * Fp8QuantizeWorkspaceBytes(args.scaling, rows, cols));
  Fp8Quantize(args, nullptr);
  return args.straight;
}

Launch Make(const Product& product, const Spread& spread, Memory* memory) {
  const int64_t rows = spread.offsets.back();
  const Fp8Straight x = Quantised(product.rows, 1, rows, product.in, memory);
  const Fp8Straight w = Quantised(Fp8Format::kE4M3, kExperts, product.out, product.in, memory);
  const GroupedFp8LinearArgs args{.spec = {.dtype = kBF16,
                                           .row_format = product.rows,
                                           .experts = kExperts,
                                           .in_features = product.in,
                                           .out_features = product.out},
                                  .rows = rows,
                                  .offsets = memory->Upload(spread.offsets),
                                  .x = x.codes,
                                  .x_scale = x.scales,
                                  .weight = w.codes,
                                  .weight_scales = w.scales,
                                  .y = memory->BFloat16(rows * product.out)};
  return [=](Stream* s) { GroupedFp8Linear(args, s); };
}

void BenchProduct(Bench* bench, const Product& product, int64_t mean, const Spread& spread) {
  const auto rows = static_cast<double>(spread.offsets.back());
  bench->Time(
      {.name = std::string("grouped fp8 ") + product.name + " " + std::to_string(mean) + " " +
               spread.name,
       .extents = std::to_string(spread.offsets.back()) + " x " + std::to_string(product.out) +
                  " x " + std::to_string(product.in),
       .flops = 2.0 * rows * static_cast<double>(product.out) * static_cast<double>(product.in),
       .make = [&](Memory* memory) { return Make(product, spread, memory); }});
}

// Both operands of all weights of a stack.
void BenchWeights(Bench* bench, int64_t rows, int64_t cols) {
  const int64_t elements = kExperts * rows * cols;
  bench->Time(
      {.name = "fp8_quantize 128 matrices",
       .extents = Extents(rows, cols),
       .bytes = 4 * static_cast<double>(elements),
       .make = [=](Memory* memory) -> Launch {
         Fp8QuantizeArgs args{.dtype = kBF16,
                              .rows = rows,
                              .cols = cols,
                              .matrices = kExperts,
                              .x = memory->BFloat16(elements),
                              .ldx = cols};
         args.straight = {static_cast<uint8_t*>(memory->Zeros(elements)), memory->Floats(kExperts)};
         args.turned = {static_cast<uint8_t*>(memory->Zeros(elements)), memory->Floats(kExperts)};
         args.workspace =
             memory->Scratch(kExperts * Fp8QuantizeWorkspaceBytes(args.scaling, rows, cols));
         return [=](Stream* s) { Fp8Quantize(args, s); };
       }});
}

}  // namespace
}  // namespace grouped_fp8

void BenchGroupedFp8(Bench* bench) {
  if (!GroupedFp8LinearSupports(
          {.dtype = kBF16, .experts = 1, .in_features = 16, .out_features = 16})) {
    return;
  }
  for (const grouped_fp8::Product& product : grouped_fp8::kProducts) {
    for (const int64_t mean : grouped_fp8::kMeans) {
      const std::vector<int64_t> equal(grouped_fp8::kExperts, mean);
      for (const grouped_fp8::Spread& spread :
           {grouped_fp8::Spread{"equal", OffsetsOf(equal)},
            {"drawn", OffsetsOf(DrawnRows(grouped_fp8::kExperts, mean))}}) {
        grouped_fp8::BenchProduct(bench, product, mean, spread);
      }
    }
  }
  grouped_fp8::BenchWeights(bench, 1536, 2048);
  grouped_fp8::BenchWeights(bench, 2048, 768);
}

}  // namespace coxswain::kernels::bench
