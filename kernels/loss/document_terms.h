// The terms of kernels/loss/document_loss.h with their derivatives, in double, for host and device.
#ifndef COXSWAIN_KERNELS_LOSS_DOCUMENT_TERMS_H_
#define COXSWAIN_KERNELS_LOSS_DOCUMENT_TERMS_H_

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/loss/document_loss.h"

namespace coxswain::kernels {

COXSWAIN_HOST_DEVICE inline double Sigmoid(double x) {
  const double e = exp(-fabs(x));
  return x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}

COXSWAIN_HOST_DEVICE inline double LogSigmoid(double x) {
  return (x < 0.0 ? x : 0.0) - log1p(exp(-fabs(x)));
}

// s, r and n of a document.
struct ScoredDocument {
  double sum = 0, reference = 0, count = 1;

  COXSWAIN_HOST_DEVICE double gain() const { return sum - reference; }
  COXSWAIN_HOST_DEVICE double mean() const { return sum / count; }
};

// A loss and its derivatives by the sums of the chosen and the rejected document.
struct TermValue {
  double loss = 0, chosen = 0, rejected = 0;
};

// -(1 - e) log sigmoid(x) - f log sigmoid(-x), over a divisor, and its derivative by x.
struct SigmoidLoss {
  double loss = 0, slope = 0;

  COXSWAIN_HOST_DEVICE SigmoidLoss(double x, double e, double f, double divisor)
      : loss((-(1.0 - e) * LogSigmoid(x) - f * LogSigmoid(-x)) / divisor),
        slope((-(1.0 - e) * Sigmoid(-x) + f * Sigmoid(x)) / divisor) {}
};

COXSWAIN_HOST_DEVICE inline TermValue OfDifference(double loss, double slope) {
  return {loss, slope, -slope};
}

COXSWAIN_HOST_DEVICE inline TermValue OfMeans(double loss, double slope,
                                              const ScoredDocument& chosen,
                                              const ScoredDocument& rejected) {
  return {loss, slope / chosen.count, -slope / rejected.count};
}

COXSWAIN_HOST_DEVICE inline TermValue SigmoidTerm(const DocumentLossSpec& spec, DocumentTerm type,
                                                  double difference) {
  const double e = type == DocumentTerm::kSigmoid ? 0.0 : spec.label_smoothing;
  const bool robust = type == DocumentTerm::kRobust;
  const SigmoidLoss of(spec.beta * difference, e, robust ? -e : e, robust ? 1.0 - 2.0 * e : 1.0);
  return OfDifference(of.loss, spec.beta * of.slope);
}

COXSWAIN_HOST_DEVICE inline TermValue OddsTerm(const DocumentLossSpec& spec,
                                               const ScoredDocument& chosen,
                                               const ScoredDocument& rejected) {
  const double c = chosen.mean(), d = rejected.mean();
  const double odds = c - d - (log1p(-exp(c)) - log1p(-exp(d)));
  const double slope = -spec.beta * Sigmoid(-odds);
  return {-spec.beta * LogSigmoid(odds), slope / (chosen.count * -expm1(c)),
          -slope / (rejected.count * -expm1(d))};
}

COXSWAIN_HOST_DEVICE inline TermValue ApoZeroTerm(const DocumentLossSpec& spec,
                                                  const ScoredDocument& chosen,
                                                  const ScoredDocument& rejected) {
  const double c = Sigmoid(spec.beta * chosen.gain()), d = Sigmoid(spec.beta * rejected.gain());
  return {1.0 - c + d, -spec.beta * c * (1.0 - c), spec.beta * d * (1.0 - d)};
}

// A term of a pair that is no nll.
COXSWAIN_HOST_DEVICE inline TermValue PairTerm(const DocumentLossSpec& spec, DocumentTerm type,
                                               const ScoredDocument& chosen,
                                               const ScoredDocument& rejected) {
  const double difference = chosen.gain() - rejected.gain();
  const double mean = chosen.gain() / chosen.count - rejected.gain() / rejected.count;
  switch (type) {
    case DocumentTerm::kHinge: {
      const double left = 1.0 - spec.beta * difference;
      return left > 0.0 ? OfDifference(left, -spec.beta) : TermValue{left <= 0.0 ? 0.0 : left};
    }
    case DocumentTerm::kIpo: {
      const double off = mean - 1.0 / (2.0 * spec.beta);
      return OfMeans(off * off, 2.0 * off, chosen, rejected);
    }
    case DocumentTerm::kSigmoidMean: {
      const SigmoidLoss of(spec.beta * mean, 0.0, 0.0, 1.0);
      return OfMeans(of.loss, spec.beta * of.slope, chosen, rejected);
    }
    case DocumentTerm::kMargin: {
      const double e = spec.label_smoothing;
      const double x = spec.beta * (chosen.mean() - rejected.mean()) - spec.margin;
      const SigmoidLoss of(x, e, e, 1.0);
      return OfMeans(of.loss, spec.beta * of.slope, chosen, rejected);
    }
    case DocumentTerm::kApoZero:
      return ApoZeroTerm(spec, chosen, rejected);
    case DocumentTerm::kOdds:
      return OddsTerm(spec, chosen, rejected);
    default:
      return SigmoidTerm(spec, type, difference);
  }
}

// A term of a single document; the derivative is in `chosen`.
COXSWAIN_HOST_DEVICE inline TermValue RecordTerm(const DocumentLossSpec& spec, DocumentTerm type,
                                                 const ScoredDocument& document, bool desirable,
                                                 double kl) {
  const double sign = desirable ? 1.0 : -1.0;
  const double weight = desirable ? spec.desirable_weight : spec.undesirable_weight;
  const double k = type == DocumentTerm::kKto ? kl : 0.0;
  const double p = Sigmoid(sign * spec.beta * (document.gain() - k));
  return {weight * (1.0 - p), -weight * sign * spec.beta * p * (1.0 - p), 0.0};
}

COXSWAIN_HOST_DEVICE inline bool IsNll(DocumentTerm type) {
  return type == DocumentTerm::kNll || type == DocumentTerm::kNllWithPrompt;
}

COXSWAIN_HOST_DEVICE inline bool IsOfRecords(DocumentTerm type) {
  return type == DocumentTerm::kKto || type == DocumentTerm::kApoZeroRecord;
}

// What a row of the chosen document weighs in the nll term, where `scored` says which row it is.
COXSWAIN_HOST_DEVICE inline double NllWeight(const DocumentLossSpec& spec, double ratio,
                                             bool scored) {
  double weight = 0.0;
  for (int i = 0; i < spec.terms; ++i) {
    if (!IsNll(spec.type[i])) continue;
    if (scored || spec.type[i] == DocumentTerm::kNllWithPrompt) weight += spec.weight[i] * ratio;
  }
  return weight;
}

// One pair or record: its loss, minus its derivatives, and its part of the reports.
struct UnitValue {
  double loss = 0, chosen = 0, rejected = 0;
  PreferenceSums report;
};

COXSWAIN_HOST_DEVICE inline ScoredDocument DocumentOf(const DocumentLossArgs& args, int64_t i) {
  return {args.sums[i].scored, args.references == nullptr ? 0.0 : args.references[i].scored,
          static_cast<double>(args.rows[i].end - args.rows[i].scored)};
}

COXSWAIN_HOST_DEVICE inline double RewardOf(const DocumentLossSpec& spec,
                                            const ScoredDocument& document) {
  return spec.beta * document.gain() / (spec.mean_rewards ? document.count : 1.0);
}

COXSWAIN_HOST_DEVICE inline double LogpOf(const DocumentLossSpec& spec,
                                          const ScoredDocument& document) {
  return spec.mean_rewards ? document.mean() : document.sum;
}

COXSWAIN_HOST_DEVICE inline UnitValue PairValue(const DocumentLossArgs& args, int64_t pair) {
  const DocumentLossSpec& spec = args.spec;
  const ScoredDocument chosen = DocumentOf(args, 2 * pair),
                       rejected = DocumentOf(args, 2 * pair + 1);
  UnitValue value;
  for (int i = 0; i < spec.terms; ++i) {
    if (IsNll(spec.type[i])) {
      const DocumentSums& sums = args.sums[2 * pair];
      const double sum = spec.type[i] == DocumentTerm::kNll ? sums.scored : sums.all;
      value.loss -= spec.weight[i] * args.scalars->nll_ratio * sum;
      continue;
    }
    const TermValue term = PairTerm(spec, spec.type[i], chosen, rejected);
    value.loss += spec.weight[i] * term.loss;
    value.chosen -= spec.weight[i] * term.chosen;
    value.rejected -= spec.weight[i] * term.rejected;
  }
  const double won = RewardOf(spec, chosen), lost = RewardOf(spec, rejected);
  value.report = {won, lost, won > lost ? 1.0 : 0.0, LogpOf(spec, chosen), LogpOf(spec, rejected),
                  1.0, 1.0};
  return value;
}

COXSWAIN_HOST_DEVICE inline UnitValue RecordValue(const DocumentLossArgs& args, int64_t i) {
  const DocumentLossSpec& spec = args.spec;
  const ScoredDocument document = DocumentOf(args, i);
  const bool desirable = args.labels[i] > 0.0f;
  UnitValue value;
  for (int t = 0; t < spec.terms; ++t) {
    const TermValue term = RecordTerm(spec, spec.type[t], document, desirable, args.scalars->kl);
    value.loss += spec.weight[t] * term.loss;
    value.chosen -= spec.weight[t] * term.chosen;
  }
  const double reward = RewardOf(spec, document), logp = LogpOf(spec, document);
  if (desirable) {
    value.report = {reward, 0.0, 0.0, logp, 0.0, 1.0, 0.0};
  } else {
    value.report = {0.0, reward, 0.0, 0.0, logp, 0.0, 1.0};
  }
  return value;
}

inline void AddReport(const PreferenceSums& report, PreferenceSums* sums) {
  sums->rewards_chosen += report.rewards_chosen;
  sums->rewards_rejected += report.rewards_rejected;
  sums->accuracies += report.accuracies;
  sums->logps_chosen += report.logps_chosen;
  sums->logps_rejected += report.logps_rejected;
  sums->chosen += report.chosen;
  sums->rejected += report.rejected;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_DOCUMENT_TERMS_H_
