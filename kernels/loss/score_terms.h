// The losses of kernels/loss/score_loss.h with their derivatives, in double, for host and device.
#ifndef COXSWAIN_KERNELS_LOSS_SCORE_TERMS_H_
#define COXSWAIN_KERNELS_LOSS_SCORE_TERMS_H_

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/loss/document_terms.h"
#include "kernels/loss/score_loss.h"

namespace coxswain::kernels {

// A pair's or a document's part of loss and reports.
struct ScoreValue {
  double loss = 0;
  PreferenceSums report;
};

COXSWAIN_HOST_DEVICE inline int64_t DocumentsPerScore(const ScoreLossSpec& spec) {
  return spec.type == ScoreTerm::kBradleyTerry ? 2 : 1;
}

COXSWAIN_HOST_DEVICE inline void SetSlope(const ScoreLossArgs& args, int64_t at, double slope) {
  if (args.dscores != nullptr) args.dscores[at] = static_cast<float>(slope);
}

COXSWAIN_HOST_DEVICE inline ScoreValue PairOfScores(const ScoreLossArgs& args, int64_t first) {
  const double chosen = args.scores[first], rejected = args.scores[first + 1];
  const double ahead = chosen - rejected - args.values[first], sum = chosen + rejected;
  const double slope = -Sigmoid(-ahead), centre = 2.0 * args.spec.centre * sum;
  SetSlope(args, first, slope + centre);
  SetSlope(args, first + 1, centre - slope);
  ScoreValue value;
  value.loss = -LogSigmoid(ahead) + args.spec.centre * sum * sum;
  value.report = {chosen, rejected, chosen > rejected ? 1.0 : 0.0, 0.0, 0.0, 1.0, 1.0};
  return value;
}

COXSWAIN_HOST_DEVICE inline ScoreValue SingleLabel(const ScoreLossArgs& args, int64_t document) {
  const int64_t labels = args.spec.labels, begin = document * labels;
  const auto wanted = static_cast<int64_t>(args.values[document]);
  int64_t best = 0;
  for (int64_t l = 1; l < labels; ++l) {
    if (args.scores[begin + l] > args.scores[begin + best]) best = l;
  }
  const double highest = args.scores[begin + best];
  double sum = 0.0;
  for (int64_t l = 0; l < labels; ++l) sum += exp(args.scores[begin + l] - highest);
  for (int64_t l = 0; l < labels; ++l) {
    const double p = exp(args.scores[begin + l] - highest) / sum;
    SetSlope(args, begin + l, p - (l == wanted ? 1.0 : 0.0));
  }
  ScoreValue value;
  value.loss = log(sum) + highest - args.scores[begin + wanted];
  value.report.accuracies = best == wanted ? 1.0 : 0.0;
  return value;
}

COXSWAIN_HOST_DEVICE inline ScoreValue MultiLabel(const ScoreLossArgs& args, int64_t document) {
  const int64_t labels = args.spec.labels, begin = document * labels;
  const auto count = static_cast<double>(labels);
  ScoreValue value;
  for (int64_t l = begin; l < begin + labels; ++l) {
    const double s = args.scores[l], v = args.values[l];
    value.loss -= (v * LogSigmoid(s) + (1.0 - v) * LogSigmoid(-s)) / count;
    value.report.accuracies += (s > 0.0) == (v > 0.5) ? 1.0 / count : 0.0;
    SetSlope(args, l, (Sigmoid(s) - v) / count);
  }
  return value;
}

COXSWAIN_HOST_DEVICE inline ScoreValue Regression(const ScoreLossArgs& args, int64_t document) {
  const int64_t labels = args.spec.labels, begin = document * labels;
  const auto count = static_cast<double>(labels);
  ScoreValue value;
  for (int64_t l = begin; l < begin + labels; ++l) {
    const double off = static_cast<double>(args.scores[l]) - args.values[l];
    value.loss += off * off / count;
    value.report.rewards_chosen += args.scores[l] / count;
    value.report.rewards_rejected += args.values[l] / count;
    SetSlope(args, l, 2.0 * off / count);
  }
  return value;
}

// Of the pair or the document that begins with document `first`; also its slopes.
COXSWAIN_HOST_DEVICE inline ScoreValue ValueOfScores(const ScoreLossArgs& args, int64_t first) {
  const ScoreTerm type = args.spec.type;
  if (type == ScoreTerm::kBradleyTerry) return PairOfScores(args, first);
  ScoreValue value = type == ScoreTerm::kSingleLabel  ? SingleLabel(args, first)
                     : type == ScoreTerm::kMultiLabel ? MultiLabel(args, first)
                                                      : Regression(args, first);
  value.report.chosen = 1.0;
  if (type == ScoreTerm::kRegression) value.report.rejected = 1.0;
  return value;
}

COXSWAIN_HOST_DEVICE inline void ClearSlopes(const ScoreLossArgs& args, int64_t first) {
  const int64_t count = DocumentsPerScore(args.spec) * args.spec.labels;
  for (int64_t i = 0; i < count; ++i) SetSlope(args, first * args.spec.labels + i, 0.0);
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_SCORE_TERMS_H_
