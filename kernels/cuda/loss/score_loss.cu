// Losses of scores (kernels/loss/score_loss.h has the formulas).
//
// One block; a thread takes every 256th pair or document, its labels in order, then the block adds
// its threads: an order that the extents alone fix, bitwise deterministic.
#include "kernels/loss/score_loss.h"

#include "kernels/cuda/loss/document_sums.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/loss/score_terms.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) ScoreLossKernel(const ScoreLossArgs args) {
  const int64_t step = DocumentsPerScore(args.spec);
  cuda::UnitSums sums;
  for (int64_t first = step * threadIdx.x; first < args.documents; first += step * kThreads) {
    if (args.rows[first] < 0) {
      ClearSlopes(args, first);
      continue;
    }
    const ScoreValue value = ValueOfScores(args, first);
    sums.Add(value.loss, value.report);
  }
  sums.AddBlock(args.loss, args.reports);
}

}  // namespace

void ScoreLoss(const ScoreLossArgs& args, Stream* stream) {
  cuda::RequireSupported(ScoreLossSupports(args.spec), "ScoreLoss");
  cuda::RequireExtent(args.documents, "ScoreLoss", "documents");
  if (args.documents == 0) return;
  ScoreLossKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("ScoreLoss");
}

}  // namespace coxswain::kernels
