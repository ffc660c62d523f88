// Operands in FP8 made from bfloat16, both at once, and the products of a linear with them: gate
// and up of Qwen2.5-7B and 0.5B. Tensors and rows are read twice, which `bytes` does not count.
#include "kernels/quantize/fp8.h"
#include "kernels/quantize/fp8_turn.h"

#include "bench/kernels/cuda/harness.h"
#include "kernels/products/fp8_gemm.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

const char* Name(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kTensor:
      return "tensor";
    case Fp8Scaling::kRow:
      return "row";
    case Fp8Scaling::kTile:
      return "tile";
    case Fp8Scaling::kBlock:
      return "block";
  }
  return "";
}

uint8_t* Codes(int64_t outer, int64_t k, Memory* memory) {
  return static_cast<uint8_t*>(memory->Zeros(outer * Fp8Stride(k)));
}

// x of normal values, and both of its operands.
Fp8QuantizeArgs Operands(Fp8Format format, Fp8Scaling scaling, int64_t rows, int64_t cols,
                         Memory* memory) {
  return {.dtype = kBF16,
          .format = format,
          .scaling = scaling,
          .rows = rows,
          .cols = cols,
          .x = memory->BFloat16(rows * cols),
          .ldx = cols,
          .straight = {.codes = Codes(rows, cols, memory),
                       .scales = memory->Floats(Fp8Scales(scaling, rows, cols))},
          .turned = {.codes = Codes(cols, rows, memory),
                     .scales = memory->Floats(Fp8Scales(scaling, cols, rows))},
          .workspace = memory->Scratch(Fp8QuantizeWorkspaceBytes(scaling, rows, cols))};
}

void BenchQuantize(Bench* bench, Fp8Scaling scaling, int64_t rows, int64_t cols) {
  const auto elements = static_cast<double>(rows * cols);
  bench->Time({.name = std::string("fp8_quantize ") + Name(scaling),
               .extents = Extents(rows, cols),
               .bytes = 4 * elements,
               .make = [=](Memory* memory) -> Launch {
                 const auto args = Operands(Fp8Format::kE4M3, scaling, rows, cols, memory);
                 return [=](Stream* s) { Fp8Quantize(args, s); };
               }});
  if (scaling != Fp8Scaling::kTensor) return;
  bench->Time({.name = "fp8_quantize tensor, known amax",
               .extents = Extents(rows, cols),
               .bytes = 4 * elements,
               .make = [=](Memory* memory) -> Launch {
                 auto args = Operands(Fp8Format::kE4M3, scaling, rows, cols, memory);
                 args.amax = memory->Upload(std::vector<float>{5.0f});
                 return [=](Stream* s) { Fp8Quantize(args, s); };
               }});
  bench->Time({.name = "fp8_quantize tensor, expected amax, observed",
               .extents = Extents(rows, cols),
               .bytes = 4 * elements,
               .make = [=](Memory* memory) -> Launch {
                 auto args = Operands(Fp8Format::kE4M3, scaling, rows, cols, memory);
                 args.expected = memory->Upload(std::vector<float>{5.0f});
                 args.observed = memory->Upload(std::vector<float>{0.0f});
                 return [=](Stream* s) { Fp8Quantize(args, s); };
               }});
  bench->Time({.name = "fp8_turn",
               .extents = Extents(rows, cols),
               .bytes = 2 * elements,
               .make = [=](Memory* memory) -> Launch {
                 const Fp8TurnArgs args{.rows = rows,
                                        .cols = cols,
                                        .codes = Codes(rows, cols, memory),
                                        .turned = Codes(cols, rows, memory)};
                 return [=](Stream* s) { Fp8Turn(args, s); };
               }});
}

struct Fp8Linear {
  int64_t rows, in, out;
};
// Formats of gradients, and scalings of activations and gradients, and of weights.
struct Recipe {
  const char* name;
  Fp8Format gradients;
  Fp8Scaling rows, weights;
};
constexpr Recipe kRecipes[] = {
    {"tensor", Fp8Format::kE5M2, Fp8Scaling::kTensor, Fp8Scaling::kTensor},
    {"row", Fp8Format::kE5M2, Fp8Scaling::kRow, Fp8Scaling::kRow},
    {"block", Fp8Format::kE4M3, Fp8Scaling::kTile, Fp8Scaling::kBlock}};

// One operand [outer, k], of values that were quantised.
struct Operand {
  Fp8Format format;
  Fp8Scaling scaling;
  int64_t outer, k;

  Fp8Straight Make(Memory* memory) const {
    auto args = Operands(format, scaling, outer, k, memory);
    args.turned = {};
    Fp8Quantize(args, nullptr);
    return args.straight;
  }
};

void BenchProduct(Bench* bench, const std::string& name, const Operand& a, const Operand& b,
                  bool accumulates) {
  const DType output = accumulates ? kF32 : kBF16;
  const auto m = static_cast<double>(a.outer), n = static_cast<double>(b.outer),
             k = static_cast<double>(a.k);
  bench->Time({.name = name,
               .extents = Extents(a.outer, b.outer) + " x " + std::to_string(a.k),
               .bytes = (m + n) * k + m * n * (accumulates ? 8 : 2),
               .flops = 2 * m * n * k,
               .make = [=](Memory* memory) -> Launch {
                 const Fp8Straight left = a.Make(memory), right = b.Make(memory);
                 Fp8GemmArgs args{.spec = {.output_dtype = output,
                                           .bias_dtype = kBF16,
                                           .a_format = a.format,
                                           .b_format = b.format,
                                           .a_scaling = a.scaling,
                                           .b_scaling = b.scaling},
                                  .m = a.outer,
                                  .n = b.outer,
                                  .k = a.k};
                 args.a = left.codes;
                 args.a_scales = left.scales;
                 args.b = right.codes;
                 args.b_scales = right.scales;
                 args.beta = accumulates ? 1.0f : 0.0f;
                 args.c = memory->Zeros(a.outer * b.outer * DTypeBytes(output));
                 args.ldc = b.outer;
                 args.workspace =
                     memory->Scratch(Fp8GemmWorkspaceBytes(args.spec, args.m, args.n, args.k));
                 return [=](Stream* s) { Fp8Gemm(args, s); };
               }});
}

void BenchLinear(Bench* bench, const Fp8Linear& l, const Recipe& r) {
  const std::string name = std::string("fp8_gemm ") + r.name;
  constexpr auto kE4M3 = Fp8Format::kE4M3;
  BenchProduct(bench, name + " forward", {kE4M3, r.rows, l.rows, l.in},
               {kE4M3, r.weights, l.out, l.in}, false);
  BenchProduct(bench, name + " dgrad", {r.gradients, r.rows, l.rows, l.out},
               {kE4M3, r.weights, l.in, l.out}, false);
  BenchProduct(bench, name + " wgrad fp32 beta=1", {r.gradients, r.rows, l.out, l.rows},
               {kE4M3, r.rows, l.in, l.rows}, true);
}

}  // namespace

void BenchFp8(Bench* bench) {
  for (const Fp8Scaling scaling :
       {Fp8Scaling::kTensor, Fp8Scaling::kRow, Fp8Scaling::kTile, Fp8Scaling::kBlock}) {
    BenchQuantize(bench, scaling, 8192, 3584);
    BenchQuantize(bench, scaling, 8192, 37888);
    BenchQuantize(bench, scaling, 32768, 896);
  }
  if (!Fp8GemmSupports({.output_dtype = kBF16})) return;
  SetGemmTuning(true);
  for (const Recipe& recipe : kRecipes) {
    BenchLinear(bench, {8192, 3584, 37888}, recipe);
    BenchLinear(bench, {32768, 896, 9728}, recipe);
  }
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
