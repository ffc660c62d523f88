// In double, pairs and documents in order, so that the bits do not depend on the threads.
#include "kernels/loss/score_loss.h"

#include "kernels/cpu/check.h"
#include "kernels/loss/score_terms.h"

namespace coxswain::kernels {

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
