// The residual added by the norm behind a product (o and down of a block, then AddRmsNormForward)
// or by the product itself (its addend, then RmsNormForward): two bodies of the same step, in
// turns. With T tokens and H columns the first moves 5 [T, H] beside the product's operands (the
// product written; it and the residual read, sum and normed rows written), the second 4.
#include <array>
#include <cstdio>
#include <optional>

#include "bench/kernels/cuda/harness.h"
#include "kernels/norms/norms.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int kTurns = 2;

// Qwen2.5-0.5B, 1.5B and 7B.
constexpr Shape kResidualShapes[] = {
    kShapes[0],
    {"1.5b", 8192, 1536, 8960, 151936, 28, 12, 2, 128},
    kShapes[1],
};

struct ResidualLinear {
  const char* name;
  int64_t rows, in, out;
};

enum class Adder { kNorm, kProduct };
constexpr std::array kAdders = {Adder::kNorm, Adder::kProduct};

// The operands of one body. kNorm: c is what the norm adds to the residual.
struct ResidualOperands {
  GemmArgs product = {};
  AddRmsNormForwardArgs norm = {};
};

ResidualOperands MakeOperands(const ResidualLinear& l, Adder adder, Memory* memory) {
  const bool adds = adder == Adder::kProduct;
  const int64_t n = l.rows * l.out;
  void* const residual = memory->BFloat16(n);
  void* const sum = memory->BFloat16(n);
  ResidualOperands made;
  made.product = {.spec = {.dtype = kBF16, .output_dtype = kBF16, .transpose_b = true},
                  .m = l.rows,
                  .n = l.out,
                  .k = l.in,
                  .a = memory->BFloat16(l.rows * l.in),
                  .lda = l.in,
                  .b = memory->BFloat16(l.in * l.out),
                  .ldb = l.in,
                  .beta = adds ? 1.0f : 0.0f,
                  .c = adds ? sum : memory->BFloat16(n),
                  .ldc = l.out,
                  .addend = adds ? residual : nullptr,
                  .workspace = memory->Scratch(GemmWorkspaceBytes())};
  made.norm = {.spec = {.dtype = kBF16, .hidden = l.out},
               .rows = l.rows,
               .x = made.product.c,
               .residual = residual,
               .weight = memory->BFloat16(l.out),
               .sum = sum,
               .y = memory->BFloat16(n),
               .rstd = memory->Floats(l.rows)};
  return made;
}

void Norm(const AddRmsNormForwardArgs& args, Adder adder, Stream* stream) {
  if (adder == Adder::kNorm) return AddRmsNormForward(args, stream);
  RmsNormForward({.spec = args.spec,
                  .rows = args.rows,
                  .x = args.sum,
                  .weight = args.weight,
                  .y = args.y,
                  .rstd = args.rstd},
                 stream);
}

// `passes`: over [T, H] beside the product's operands.
Op MakeOp(const Shape& m, const ResidualLinear& l, const char* what, double passes,
          const std::function<Launch(Memory*)>& make) {
  const auto rows = static_cast<double>(l.rows), in = static_cast<double>(l.in);
  const auto out = static_cast<double>(l.out);
  return {.name = std::string("residual ") + m.model + " " + l.name + ": " + what,
          .extents =
              std::to_string(l.rows) + " x " + std::to_string(l.out) + " x " + std::to_string(l.in),
          .bytes = 2 * (rows * in + in * out + passes * rows * out),
          .flops = 2 * rows * in * out,
          .make = make};
}

void BenchProduct(Bench* bench, const Shape& m, const ResidualLinear& l, Adder adder) {
  const bool adds = adder == Adder::kProduct;
  bench->Time(MakeOp(m, l, adds ? "product with addend" : "product", adds ? 2 : 1,
                     [=](Memory* memory) -> Launch {
                       const ResidualOperands made = MakeOperands(l, adder, memory);
                       return [=](Stream* s) { Gemm(made.product, s); };
                     }));
}

// Seconds of product and norm.
std::optional<double> BenchBoth(Bench* bench, const Shape& m, const ResidualLinear& l,
                                Adder adder) {
  const bool adds = adder == Adder::kProduct;
  const auto timing =
      bench->Time(MakeOp(m, l, adds ? "product with addend, norm" : "product, adding norm",
                         adds ? 4 : 5, [=](Memory* memory) -> Launch {
                           const ResidualOperands made = MakeOperands(l, adder, memory);
                           return [=](Stream* s) {
                             Gemm(made.product, s);
                             Norm(made.norm, adder, s);
                           };
                         }));
  if (!timing.has_value()) return std::nullopt;
  return timing->median;
}

// Means over the turns, in the order of kAdders; nothing where one is missing.
std::optional<std::array<double, 2>> BenchInTurns(Bench* bench, const Shape& m,
                                                  const ResidualLinear& l) {
  for (const Adder adder : kAdders) BenchProduct(bench, m, l, adder);
  std::array<double, 2> seconds = {};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < kAdders.size(); ++i) {
      const auto one = BenchBoth(bench, m, l, kAdders[i]);
      if (!one.has_value()) return std::nullopt;
      seconds[i] += *one / kTurns;
    }
  }
  return seconds;
}

void BenchModel(Bench* bench, const Shape& m) {
  const ResidualLinear linears[] = {{"o", m.tokens, m.query(), m.hidden},
                                    {"down", m.tokens, m.intermediate, m.hidden}};
  std::array<double, 2> layer = {};
  for (const ResidualLinear& linear : linears) {
    const auto seconds = BenchInTurns(bench, m, linear);
    if (!seconds.has_value()) return;
    for (size_t i = 0; i < layer.size(); ++i) layer[i] += (*seconds)[i];
  }
  const double layers = static_cast<double>(m.layers) * 1e3;
  char text[160];
  std::snprintf(text, sizeof(text),
                "o and down of a micro-step's forward: %.3f ms, with addends %.3f ms (%+.1f %%)",
                layers * layer[0], layers * layer[1], 100 * (layer[1] / layer[0] - 1));
  bench->AddLine(std::string("residual ") + m.model, text,
                 {{"model", m.model},
                  {"adding_norm_ms", layers * layer[0]},
                  {"addend_ms", layers * layer[1]}});
}

}  // namespace

void BenchResidual(Bench* bench) {
  SetGemmTuning(true);
  for (const Shape& m : kResidualShapes) BenchModel(bench, m);
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
