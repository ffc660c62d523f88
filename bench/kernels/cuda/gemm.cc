// Every matrix product of a training step, as the heuristic and as tuning choose it, and their sum:
// the floor below which no step of the model can go with these products.
#include <cstdio>
#include <iterator>
#include <optional>

#include "bench/kernels/cuda/harness.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

struct Linear {
  const char* name;
  int64_t rows, in, out;
  bool bias;
  double count;  // of a micro-step: layers, or chunks of the head
};

std::vector<Linear> Linears(const Shape& m) {
  constexpr int64_t kHeadChunk = 4096;
  const auto layers = static_cast<double>(m.layers);
  return {{"qkv", m.tokens, m.hidden, m.packed(), true, layers},
          {"o", m.tokens, m.query(), m.hidden, false, layers},
          {"gate_up", m.tokens, m.hidden, 2 * m.intermediate, false, layers},
          {"down", m.tokens, m.intermediate, m.hidden, false, layers},
          {"head", kHeadChunk, m.hidden, m.vocab, false,
           static_cast<double>(m.tokens) / static_cast<double>(kHeadChunk)}};
}

enum class Pass { kForward, kDgrad, kWgradFloat32, kWgradBFloat16 };
constexpr Pass kPasses[] = {Pass::kForward, Pass::kDgrad, Pass::kWgradFloat32,
                            Pass::kWgradBFloat16};

const char* Name(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward";
    case Pass::kDgrad:
      return "dgrad";
    case Pass::kWgradFloat32:
      return "wgrad fp32 beta=1";
    case Pass::kWgradBFloat16:
      return "wgrad bf16 beta=1";
  }
  return "";
}

// The product without its operands.
GemmArgs Product(const Linear& l, Pass pass) {
  switch (pass) {
    case Pass::kForward:  // y [rows, out] = x W^T
      return {.spec = {.dtype = kBF16, .output_dtype = kBF16, .transpose_b = true},
              .m = l.rows,
              .n = l.out,
              .k = l.in,
              .lda = l.in,
              .ldb = l.in,
              .ldc = l.out};
    case Pass::kDgrad:  // dx [rows, in] = dy W
      return {.spec = {.dtype = kBF16, .output_dtype = kBF16},
              .m = l.rows,
              .n = l.in,
              .k = l.out,
              .lda = l.out,
              .ldb = l.in,
              .ldc = l.in};
    case Pass::kWgradFloat32:  // dW [out, in] += dy^T x
    case Pass::kWgradBFloat16:
      break;
  }
  return {.spec = {.dtype = kBF16,
                   .output_dtype = pass == Pass::kWgradFloat32 ? kF32 : kBF16,
                   .transpose_a = true},
          .m = l.out,
          .n = l.in,
          .k = l.rows,
          .lda = l.out,
          .ldb = l.in,
          .beta = 1.0f,
          .ldc = l.in};
}

Launch MakeGemm(GemmArgs args, bool bias, Memory* memory) {
  args.a = memory->BFloat16(args.m * args.k);
  args.b = memory->BFloat16(args.k * args.n);
  args.c = memory->Values(args.spec.output_dtype, args.m * args.n);
  if (bias) args.bias = memory->BFloat16(args.n);
  args.workspace = memory->Scratch(GemmWorkspaceBytes());
  return [=](Stream* s) { Gemm(args, s); };
}

// The time of all products of a micro-step, unless one is missing. `wgrad`: none for frozen
// weights.
void AddFloor(Bench* bench, const Shape& m, const char* choice, std::optional<Pass> wgrad,
              const std::vector<std::vector<double>>& seconds) {
  double sum = 0;
  const std::vector<Linear> linears = Linears(m);
  for (size_t l = 0; l < linears.size(); ++l) {
    for (size_t p = 0; p < std::size(kPasses); ++p) {
      const bool any_wgrad = kPasses[p] != Pass::kForward && kPasses[p] != Pass::kDgrad;
      if (any_wgrad && kPasses[p] != wgrad) continue;
      if (seconds[l][p] == 0) return;
      sum += seconds[l][p] * linears[l].count;
    }
  }
  const double rate = static_cast<double>(m.tokens) / sum;
  const char* products = wgrad.has_value() ? Name(*wgrad) : "no wgrad";
  char text[160];
  std::snprintf(text, sizeof(text), "%.1f ms, %.0f tokens/s (%s, %s)", sum * 1e3, rate, choice,
                products);
  bench->AddLine(std::string("gemm floor ") + m.model, text,
                 {{"model", m.model},
                  {"choice", choice},
                  {"wgrad", products},
                  {"ms", sum * 1e3},
                  {"tokens_per_second", rate}});
}

void BenchChoice(Bench* bench, const Shape& m, const char* choice) {
  std::vector<std::vector<double>> seconds;
  for (const Linear& linear : Linears(m)) {
    seconds.emplace_back();
    for (const Pass pass : kPasses) {
      const GemmArgs product = Product(linear, pass);
      const auto timing =
          bench->Time({.name = std::string("gemm ") + m.model + " " + linear.name + " " +
                               Name(pass) + " " + choice,
                       .extents = std::to_string(product.m) + " x " + std::to_string(product.n) +
                                  " x " + std::to_string(product.k),
                       .flops = 2.0 * static_cast<double>(product.m) *
                                static_cast<double>(product.n) * static_cast<double>(product.k),
                       .make = [&](Memory* memory) {
                         return MakeGemm(product, linear.bias && pass == Pass::kForward, memory);
                       }});
      seconds.back().push_back(timing.has_value() ? timing->median : 0);
    }
  }
  for (const std::optional<Pass> wgrad :
       {std::optional(Pass::kWgradFloat32), std::optional(Pass::kWgradBFloat16),
        std::optional<Pass>()}) {
    AddFloor(bench, m, choice, wgrad, seconds);
  }
}

}  // namespace

void BenchGemmPeak(Bench* bench) {
  constexpr int64_t kSide = 8192;
  const Linear square{"square", kSide, kSide, kSide, false, 1};
  SetGemmTuning(true);
  const auto timing = bench->Time(
      {.name = "gemm peak bf16",
       .extents = "8192 x 8192 x 8192",
       .flops = 2.0 * kSide * kSide * kSide,
       .make =
           [&](Memory* memory) { return MakeGemm(Product(square, Pass::kForward), false, memory); },
       .always = true});
  SetGemmTuning(false);
  if (timing.has_value()) bench->SetGemmPeak(2.0 * kSide * kSide * kSide / timing->median);
}

// The heuristic's choices come first: a tuned shape stays tuned.
void BenchGemm(Bench* bench) {
  for (const bool tuned : {false, true}) {
    SetGemmTuning(tuned);
    for (const Shape& m : kShapes) BenchChoice(bench, m, tuned ? "tuned" : "heuristic");
  }
  SetGemmTuning(false);
}

}  // namespace coxswain::kernels::bench
