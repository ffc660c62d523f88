// LM head and cross-entropy, forward and both gradients, of 8,192 rows of Qwen2.5-0.5B as the
// engine runs them: chunks of 2,048 rows, logits in bfloat16, their gradient in place, dW
// accumulated in float32. Goals: 12.0 ms and 700 MiB beside x, W and dW.
#include <cstdio>

#include "bench/kernels/cuda/harness.h"
#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kRows = 8192, kChunk = 2048;
constexpr double kGoalMs = 12.0, kGoalMib = 700.0;

struct Head {
  int64_t hidden = 0, vocab = 0;
  const void *x = nullptr, *weight = nullptr;
  void *logits = nullptr, *dx = nullptr;
  float *dweight = nullptr, *loss = nullptr, *nll = nullptr, *scale = nullptr;
  int32_t* targets = nullptr;
  Workspace workspace = {};
};

// Adds to *extra the bytes that the fused head needs beside x, W, dW and the targets.
Head MakeHead(const Shape& m, Memory* memory, int64_t* extra) {
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < kRows; ++row) {
    targets.push_back(static_cast<int32_t>(row * 7919 % m.vocab));
  }
  Head head{.hidden = m.hidden, .vocab = m.vocab};
  head.x = memory->BFloat16(kRows * m.hidden);
  head.weight = memory->BFloat16(m.vocab * m.hidden);
  head.dweight = static_cast<float*>(memory->Zeros(4 * m.vocab * m.hidden));
  head.targets = memory->Upload(targets);
  const int64_t before = memory->bytes();
  head.logits = memory->BFloat16(kChunk * m.vocab);
  head.dx = memory->Zeros(2 * kRows * m.hidden);
  head.loss = memory->Floats(kRows);
  head.nll = memory->Floats(kRows);
  head.scale = memory->Upload<float>({1.0f / kRows});
  head.workspace = memory->Scratch(GemmWorkspaceBytes());
  *extra = memory->bytes() - before;
  return head;
}

void RunChunk(const Head& h, int64_t first, Stream* s) {
  const auto* x = static_cast<const char*>(h.x) + 2 * first * h.hidden;
  auto* dx = static_cast<char*>(h.dx) + 2 * first * h.hidden;
  Gemm({.spec = {.dtype = kBF16, .output_dtype = kBF16, .transpose_b = true},
        .m = kChunk,
        .n = h.vocab,
        .k = h.hidden,
        .a = x,
        .lda = h.hidden,
        .b = h.weight,
        .ldb = h.hidden,
        .c = h.logits,
        .ldc = h.vocab,
        .workspace = h.workspace},
       s);
  CrossEntropy({.spec = {.dtype = kBF16, .vocab = h.vocab},
                .rows = kChunk,
                .logits = h.logits,
                .targets = h.targets + first,
                .gradient_scale = h.scale,
                .loss = h.loss + first,
                .nll = h.nll + first},
               s);
  Gemm({.spec = {.dtype = kBF16, .output_dtype = kBF16},
        .m = kChunk,
        .n = h.hidden,
        .k = h.vocab,
        .a = h.logits,
        .lda = h.vocab,
        .b = h.weight,
        .ldb = h.hidden,
        .c = dx,
        .ldc = h.hidden,
        .workspace = h.workspace},
       s);
  Gemm({.spec = {.dtype = kBF16, .output_dtype = DType::kFloat32, .transpose_a = true},
        .m = h.vocab,
        .n = h.hidden,
        .k = kChunk,
        .a = h.logits,
        .lda = h.vocab,
        .b = x,
        .ldb = h.hidden,
        .beta = 1.0f,
        .c = h.dweight,
        .ldc = h.hidden,
        .workspace = h.workspace},
       s);
}

}  // namespace

void BenchLmHead(Bench* bench) {
  const Shape& m = kShapes[0];
  int64_t extra = 0;
  SetGemmTuning(true);
  const auto timing = bench->Time(
      {.name = "lm_head forward, loss, both gradients",
       .extents = Extents(kRows, m.hidden) + " x " + std::to_string(m.vocab),
       .flops = 6.0 * static_cast<double>(kRows * m.hidden) * static_cast<double>(m.vocab),
       .make = [&](Memory* memory) -> Launch {
         const Head head = MakeHead(m, memory, &extra);
         return [=](Stream* s) {
           for (int64_t first = 0; first < kRows; first += kChunk) RunChunk(head, first, s);
         };
       },
       .note = "chunks of " + std::to_string(kChunk) + ", dW in float32"});
  SetGemmTuning(false);
  if (!timing.has_value()) return;
  const double ms = timing->median * 1e3, mib = static_cast<double>(extra) / (1 << 20);
  char text[160];
  std::snprintf(text, sizeof(text), "%.2f ms (goal %.1f), %.0f MiB beside x, W, dW (goal %.0f)", ms,
                kGoalMs, mib, kGoalMib);
  bench->AddLine("lm_head", text,
                 {{"ms", ms}, {"goal_ms", kGoalMs}, {"extra_mib", mib}, {"goal_mib", kGoalMib}});
}

}  // namespace coxswain::kernels::bench
