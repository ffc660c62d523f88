// LM head and cross-entropy, forward and both gradients, of 8,192 rows of Qwen2.5-0.5B as the
// engine runs them: chunks of 2,048 rows, logits in bfloat16, their gradient in place, dW
// accumulated in float32. Goals: 12.0 ms and 700 MiB beside x, W and dW.
//
// "lm_head curve": the same held to so many MiB of logits, and the cut head (cut_cross_entropy.h),
// of Qwen2.5-0.5B and of Llama-3-8B's extents. The percentage is that of 6 N H V operations, which
// the cut head does 8/6 of. Lines say the memory beside inputs, outputs and float32 accumulators.
#include <algorithm>
#include <cstdio>

#include "bench/kernels/cuda/harness.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/cut_cross_entropy.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::bench {
namespace {

constexpr int64_t kRows = 8192, kChunk = 2048;
constexpr double kGoalMs = 12.0, kGoalMib = 700.0;

struct HeadExtents {
  int64_t rows, hidden, vocab;
  double flops() const {
    return 6.0 * static_cast<double>(rows * hidden) * static_cast<double>(vocab);
  }
  std::string Describe() const { return Extents(rows, hidden) + " x " + std::to_string(vocab); }
};

struct Head {
  int64_t rows = 0, chunk = 0, hidden = 0, vocab = 0;
  const void *x = nullptr, *weight = nullptr;
  void *logits = nullptr, *dx = nullptr;
  float *dweight = nullptr, *loss = nullptr, *nll = nullptr, *scale = nullptr;
  int32_t* targets = nullptr;
  Workspace workspace = {};
};

// Bytes beside x, W, dW and the targets; of them beside the outputs too.
struct Extra {
  int64_t beside_inputs = 0, beside_outputs = 0;
};

Head MakeHead(const HeadExtents& m, int64_t chunk, Memory* memory, Extra* extra) {
  std::vector<int32_t> targets;
  for (int64_t row = 0; row < m.rows; ++row) {
    targets.push_back(static_cast<int32_t>(row * 7919 % m.vocab));
  }
  Head head{.rows = m.rows, .chunk = chunk, .hidden = m.hidden, .vocab = m.vocab};
  head.x = memory->BFloat16(m.rows * m.hidden);
  head.weight = memory->BFloat16(m.vocab * m.hidden);
  head.dweight = static_cast<float*>(memory->Zeros(4 * m.vocab * m.hidden));
  head.targets = memory->Upload(targets);
  const int64_t before = memory->bytes();
  head.dx = memory->Zeros(2 * m.rows * m.hidden);
  head.loss = memory->Floats(m.rows);
  head.nll = memory->Floats(m.rows);
  head.scale = memory->Upload<float>({1.0f / static_cast<float>(m.rows)});
  const int64_t outputs = memory->bytes();
  head.logits = memory->BFloat16(chunk * m.vocab);
  head.workspace = memory->Scratch(GemmWorkspaceBytes());
  *extra = {memory->bytes() - before, memory->bytes() - outputs};
  return head;
}

void RunChunk(const Head& h, int64_t first, Stream* s) {
  const int64_t rows = std::min(h.chunk, h.rows - first);
  const auto* x = static_cast<const char*>(h.x) + 2 * first * h.hidden;
  auto* dx = static_cast<char*>(h.dx) + 2 * first * h.hidden;
  Gemm({.spec = {.dtype = kBF16, .output_dtype = kBF16, .transpose_b = true},
        .m = rows,
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
                .rows = rows,
                .logits = h.logits,
                .targets = h.targets + first,
                .gradient_scale = h.scale,
                .loss = h.loss + first,
                .nll = h.nll + first},
               s);
  Gemm({.spec = {.dtype = kBF16, .output_dtype = kBF16},
        .m = rows,
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
        .k = rows,
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

Launch ChunkedHead(const Head& head) {
  return [=](Stream* s) {
    for (int64_t first = 0; first < head.rows; first += head.chunk) RunChunk(head, first, s);
  };
}

// The cut head, its workspace lent; dx in float32.
Launch CutHead(const HeadExtents& m, int64_t bytes, Memory* memory, Extra* extra) {
  const Head head = MakeHead(m, 1, memory, extra);
  const CutCrossEntropySpec spec{.dtype = kBF16, .hidden = m.hidden, .vocab = m.vocab};
  auto* dx = static_cast<float*>(memory->Zeros(4 * m.rows * m.hidden));
  const int64_t before = memory->bytes();
  auto* statistics = memory->Floats(2 * m.rows);
  const Workspace workspace =
      memory->Scratch(std::max(bytes, CutCrossEntropyWorkspaceBytes(spec, m.rows)));
  extra->beside_outputs = memory->bytes() - before;
  return [=](Stream* s) {
    CutCrossEntropyForward({.spec = spec,
                            .rows = m.rows,
                            .x = head.x,
                            .weight = head.weight,
                            .targets = head.targets,
                            .loss = head.loss,
                            .nll = head.nll,
                            .statistics = statistics,
                            .workspace = workspace},
                           s);
    CutCrossEntropyBackward({.spec = spec,
                             .rows = m.rows,
                             .x = head.x,
                             .weight = head.weight,
                             .targets = head.targets,
                             .statistics = statistics,
                             .gradient_scale = head.scale,
                             .dx = dx,
                             .dweight = head.dweight,
                             .workspace = workspace},
                            s);
  };
}

void BenchCurvePoint(Bench* bench, const HeadExtents& m, const std::string& name,
                     const std::function<Launch(Memory*, Extra*)>& make) {
  Extra extra;
  const auto timing = bench->Time({.name = "lm_head curve, " + name,
                                   .extents = m.Describe(),
                                   .flops = m.flops(),
                                   .make = [&](Memory* memory) { return make(memory, &extra); }});
  if (!timing.has_value()) return;
  const double mib = static_cast<double>(extra.beside_outputs) / (1 << 20);
  char text[160];
  std::snprintf(text, sizeof(text), "%s, %s: %.2f ms, p90 %.2f ms, %.0f MiB extra", name.c_str(),
                m.Describe().c_str(), timing->median * 1e3, timing->p90 * 1e3, mib);
  bench->AddLine("lm_head curve", text,
                 {{"head", name},
                  {"extents", m.Describe()},
                  {"ms", timing->median * 1e3},
                  {"p90_ms", timing->p90 * 1e3},
                  {"extra_mib", mib}});
}

void BenchCurve(Bench* bench) {
  constexpr HeadExtents kCurves[] = {{8192, 896, 151936}, {16384, 4096, 128256}};
  for (const HeadExtents& m : kCurves) {
    for (const int64_t mib : {64, 96, 128, 144, 256, 512, 1024, 5120}) {
      const int64_t fits = std::max<int64_t>(1, (mib << 20) / (2 * m.vocab) / 64) * 64;
      const int64_t rows = std::min(fits, m.rows);
      const int64_t chunks = (m.rows + rows - 1) / rows;
      const int64_t chunk = ((m.rows + chunks - 1) / chunks + 63) / 64 * 64;
      BenchCurvePoint(bench, m, "chunked " + std::to_string(mib) + " MiB",
                      [&](Memory* memory, Extra* extra) {
                        return ChunkedHead(MakeHead(m, chunk, memory, extra));
                      });
    }
    for (const int64_t bytes : {kCutCrossEntropyBytes / 2, kCutCrossEntropyBytes}) {
      BenchCurvePoint(
          bench, m, "cut " + std::to_string(bytes >> 20) + " MiB",
          [&](Memory* memory, Extra* extra) { return CutHead(m, bytes, memory, extra); });
    }
  }
}

}  // namespace

void BenchLmHead(Bench* bench) {
  const HeadExtents m{kRows, kShapes[0].hidden, kShapes[0].vocab};
  Extra of_head;
  SetGemmTuning(true);
  const auto timing =
      bench->Time({.name = "lm_head forward, loss, both gradients",
                   .extents = m.Describe(),
                   .flops = m.flops(),
                   .make = [&](Memory* memory) -> Launch {
                     return ChunkedHead(MakeHead(m, kChunk, memory, &of_head));
                   },
                   .note = "chunks of " + std::to_string(kChunk) + ", dW in float32"});
  BenchCurve(bench);
  SetGemmTuning(false);
  if (!timing.has_value()) return;
  const double ms = timing->median * 1e3;
  const double mib = static_cast<double>(of_head.beside_inputs) / (1 << 20);
  char text[160];
  std::snprintf(text, sizeof(text), "%.2f ms (goal %.1f), %.0f MiB beside x, W, dW (goal %.0f)", ms,
                kGoalMs, mib, kGoalMib);
  bench->AddLine("lm_head", text,
                 {{"ms", ms}, {"goal_ms", kGoalMs}, {"extra_mib", mib}, {"goal_mib", kGoalMib}});
}

}  // namespace coxswain::kernels::bench
