// The terms of kernels/loss/policy_loss.h with their derivatives, in double, for host and device.
#ifndef COXSWAIN_KERNELS_LOSS_POLICY_TERMS_H_
#define COXSWAIN_KERNELS_LOSS_POLICY_TERMS_H_

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/loss/policy_loss.h"

namespace coxswain::kernels {

// A function of the ratio and its derivative by the ratio's logarithm.
struct RatioTerm {
  double value = 0, slope = 0;
};

// min(r, most); NaN stays.
COXSWAIN_HOST_DEVICE inline RatioTerm AtMost(double ratio, double most) {
  return ratio > most ? RatioTerm{most, 0.0} : RatioTerm{ratio, ratio};
}

COXSWAIN_HOST_DEVICE inline RatioTerm Clamped(double ratio, double least, double most) {
  return ratio < least ? RatioTerm{least, 0.0} : AtMost(ratio, most);
}

// Where both are equal, `a`; NaN of `a` stays.
COXSWAIN_HOST_DEVICE inline RatioTerm Smaller(const RatioTerm& a, const RatioTerm& b) {
  return b.value < a.value ? b : a;
}

COXSWAIN_HOST_DEVICE inline RatioTerm Times(const RatioTerm& term, double factor) {
  return {term.value * factor, term.slope * factor};
}

// A row's numbers. log_ratio is its own, or its document's.
struct PolicyRow {
  double logp = 0, log_ratio = 0, advantage = 0;
  double reference_gain = 0;  // q - l; 0 without a KL term
};

// The loss of a row, and its derivatives by the logarithm of its ratio and by l beside that.
struct PolicyValue {
  double loss = 0, by_ratio = 0, by_logp = 0;
  double kl = 0, ratio = 0;
  bool low = false, high = false;
};

COXSWAIN_HOST_DEVICE inline void AddObjective(const PolicyLossSpec& spec, const PolicyRow& row,
                                              PolicyValue* value) {
  const double ratio = value->ratio;
  if (spec.objective == PolicyObjective::kImportance) {
    value->loss -= ratio * row.advantage;
    value->by_ratio -= ratio * row.advantage;
    return;
  }
  if (spec.objective == PolicyObjective::kCispo) {
    const double weight = AtMost(ratio, spec.epsilon_high).value * row.advantage;
    value->loss -= weight * row.logp;
    value->by_logp -= weight;
    value->high = ratio > spec.epsilon_high && row.advantage > 0.0;
    return;
  }
  const RatioTerm free = spec.delta > 0.0 ? AtMost(ratio, spec.delta) : RatioTerm{ratio, ratio};
  const double least = 1.0 - spec.epsilon_low, most = 1.0 + spec.epsilon_high;
  const RatioTerm chosen =
      Smaller(Times(free, row.advantage), Times(Clamped(ratio, least, most), row.advantage));
  value->loss -= chosen.value;
  value->by_ratio -= chosen.slope;
  value->low = free.value < least && row.advantage < 0.0;
  value->high = free.value > most && row.advantage > 0.0;
}

COXSWAIN_HOST_DEVICE inline PolicyValue PolicyValueOf(const PolicyLossSpec& spec,
                                                      const PolicyRow& row) {
  PolicyValue value;
  value.ratio = exp(row.log_ratio);
  AddObjective(spec, row, &value);
  if (spec.kl_weight > 0.0) {
    const double excess = expm1(row.reference_gain);  // exp(q - l) - 1
    value.kl = excess - row.reference_gain;
    value.loss += spec.kl_weight * value.kl;
    value.by_logp -= spec.kl_weight * excess;
  }
  return value;
}

// l - o of a row of the list.
COXSWAIN_HOST_DEVICE inline double LogRatioOf(const PolicyLossArgs& args, int64_t row) {
  return -static_cast<double>(args.nll[row]) - static_cast<double>(args.old_logps[row]);
}

// `of_document`: the mean log ratio, where the ratio is of documents.
COXSWAIN_HOST_DEVICE inline PolicyValue PolicyValueAt(const PolicyLossArgs& args, int64_t row,
                                                      double of_document) {
  const double logp = -static_cast<double>(args.nll[row]);
  PolicyRow at;
  at.logp = logp;
  at.log_ratio = args.spec.sequence_ratio ? of_document : LogRatioOf(args, row);
  at.advantage = args.advantages[row];
  if (args.references != nullptr) at.reference_gain = args.references[row] - logp;
  return PolicyValueOf(args.spec, at);
}

COXSWAIN_HOST_DEVICE inline void AddRow(const PolicyValue& value, PolicyPart* part) {
  part->loss += value.loss;
  part->slope += value.by_ratio;
  part->low += value.low ? 1.0 : 0.0;
  part->high += value.high ? 1.0 : 0.0;
  part->kl += value.kl;
  part->ratio += value.ratio;
}

// What a row counts in a document of `count` rows.
COXSWAIN_HOST_DEVICE inline double RowFactor(const PolicyLossSpec& spec, double count) {
  return spec.normaliser == PolicyNormaliser::kSequences ? 1.0 / count : 1.0;
}

// A row's weight. `slope`: PolicyPart::slope of its document.
COXSWAIN_HOST_DEVICE inline float PolicyWeight(const PolicyLossSpec& spec, const PolicyValue& value,
                                               double slope, double count) {
  const double by_ratio = spec.sequence_ratio ? slope / count : value.by_ratio;
  return static_cast<float>(-(by_ratio + value.by_logp) * RowFactor(spec, count));
}

// A document's part of the reports.
COXSWAIN_HOST_DEVICE inline PolicySums PolicyReport(const PolicyLossSpec& spec,
                                                    const PolicyPart& part, double count) {
  const double unit = spec.sequence_ratio ? 1.0 / count : 1.0;
  PolicySums report;
  report.clipped_low = part.low * unit;
  report.clipped_high = part.high * unit;
  report.clippable = count * unit;
  report.kl = part.kl;
  report.ratio = part.ratio;
  report.rows = count;
  report.high_max = part.high / count;
  report.not_low_max = 1.0 - part.low / count;
  return report;
}

COXSWAIN_HOST_DEVICE inline void AddReport(const PolicySums& report, PolicySums* sums) {
  sums->clipped_low += report.clipped_low;
  sums->clipped_high += report.clipped_high;
  sums->clippable += report.clippable;
  sums->kl += report.kl;
  sums->ratio += report.ratio;
  sums->rows += report.rows;
  sums->high_max = fmax(sums->high_max, report.high_max);
  sums->not_low_max = fmax(sums->not_low_max, report.not_low_max);
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_POLICY_TERMS_H_
