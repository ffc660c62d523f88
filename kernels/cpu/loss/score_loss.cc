// In double, pairs and documents in order, so that the bits do not depend on the threads.
#include "kernels/loss/score_loss.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/loss/score_terms.h"

namespace coxswain::kernels {
namespace {

double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// Elements [begin, end) of all rows of dx.
void InputGradient(const ScoreHeadBackwardArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.spec.width, labels = args.spec.labels;
  const auto* weight = static_cast<const float*>(args.weight);
  for (int64_t i = 0; i < args.documents; ++i) {
    if (args.rows[i] < 0) continue;
    float* const dx = static_cast<float*>(args.dx) + args.rows[i] * width;
    for (int64_t h = begin; h < end; ++h) {
      double sum = 0.0;
      for (int64_t l = 0; l < labels; ++l) {
        sum += static_cast<double>(args.dscores[i * labels + l]) * weight[l * width + h];
      }
      dx[h] = static_cast<float>(sum * *args.scale);
    }
  }
}

void WeightGradient(const ScoreHeadBackwardArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.spec.width, labels = args.spec.labels;
  const auto* x = static_cast<const float*>(args.x);
  for (int64_t l = 0; l < labels; ++l) {
    for (int64_t h = begin; h < end; ++h) {
      double sum = 0.0;
      for (int64_t i = 0; i < args.documents; ++i) {
        if (args.rows[i] < 0) continue;
        sum += static_cast<double>(args.dscores[i * labels + l]) * x[args.rows[i] * width + h];
      }
      float& dw = args.dweight[l * width + h];
      dw = static_cast<float>(sum * *args.scale) + (args.accumulate ? dw : 0.0f);
    }
  }
}

}  // namespace

bool ScoreHeadSupports(const ScoreHeadSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.width > 0 && spec.labels > 0 && spec.labels < 65536;
}

void ScoreHeadForward(const ScoreHeadForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(ScoreHeadSupports(args.spec), "ScoreHead");
  const int64_t width = args.spec.width, labels = args.spec.labels;
  const auto* x = static_cast<const float*>(args.x);
  const auto* weight = static_cast<const float*>(args.weight);
  cpu::ParallelFor(args.documents, width * labels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t l = 0; l < labels; ++l) {
        args.scores[i * labels + l] =
            args.rows[i] < 0
                ? 0.0f
                : static_cast<float>(Dot(x + args.rows[i] * width, weight + l * width, width));
      }
    }
  });
}

void ScoreHeadBackward(const ScoreHeadBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(ScoreHeadSupports(args.spec), "ScoreHead");
  cpu::ParallelFor(args.spec.width, args.documents * args.spec.labels,
                   [&](int64_t begin, int64_t end) {
                     InputGradient(args, begin, end);
                     if (args.dweight != nullptr) WeightGradient(args, begin, end);
                   });
}

void ScoreLoss(const ScoreLossArgs& args, Stream* stream) {
  cpu::RequireSupported(ScoreLossSupports(args.spec), "ScoreLoss");
  const int64_t step = DocumentsPerScore(args.spec);
  for (int64_t first = 0; first < args.documents; first += step) {
    if (args.rows[first] < 0) {
      ClearSlopes(args, first);
      continue;
    }
    const ScoreValue value = ValueOfScores(args, first);
    *args.loss += value.loss;
    AddReport(value.report, args.reports);
  }
}

}  // namespace coxswain::kernels
