// Entropies of rows beside each other, then their sum in row order, in double, so that the bits do
// not depend on the threads. A probability is off by 9 u + E/16 u, u = 2^-24.
#include <cmath>
#include <limits>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/experts/router_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/experts/expert_use.h"

namespace coxswain::kernels {
namespace {

COXSWAIN_VECTORIZE cpu::RouterRow ReadUseRow(const float* logits, int64_t n) {
  return cpu::ReadRouterRow(logits, n);
}

// log sum - sum p (l - maximum): p is 0 where l is -inf.
double SoftmaxEntropy(const float* logits, int64_t experts) {
  const cpu::RouterRow row = ReadUseRow(logits, experts);
  double mean = 0.0;
  for (int64_t e = 0; e < experts; ++e) {
    const float below = logits[e] - row.maximum;
    const double p = cpu::Exp(below) / row.sum;
    if (p > 0.0) mean += p * below;
  }
  return std::log(static_cast<double>(row.sum)) - mean;
}

// log S - sum s log s / S, S the sum of s.
double SigmoidEntropy(const float* logits, int64_t experts) {
  double sum = 0.0, logs = 0.0;
  for (int64_t e = 0; e < experts; ++e) {
    const double s = 1.0f / (1.0f + cpu::Exp(-logits[e]));
    sum += s;
    if (s > 0.0) logs += s * std::log(s);
  }
  return std::log(sum) - logs / sum;
}

double Entropy(const ExpertUseSpec& spec, const float* logits) {
  // +inf has a score of 1 by a sigmoid.
  for (int64_t e = 0; e < spec.experts; ++e) {
    if (!(logits[e] < std::numeric_limits<float>::infinity())) {
      return std::numeric_limits<double>::quiet_NaN();
    }
  }
  return spec.score == RouterScore::kSigmoid ? SigmoidEntropy(logits, spec.experts)
                                             : SoftmaxEntropy(logits, spec.experts);
}

}  // namespace

bool ExpertUseSupports(const ExpertUseSpec& spec) {
  return spec.experts > 0 && spec.experts <= kMostExperts && spec.chosen > 0 &&
         spec.chosen <= spec.experts;
}

int64_t ExpertUseWorkspaceBytes(const ExpertUseSpec& /*spec*/, int64_t tokens) {
  return tokens * static_cast<int64_t>(sizeof(double));
}

void ExpertUse(const ExpertUseArgs& args, Stream* /*stream*/) {
  const int64_t experts = args.spec.experts, chosen = args.spec.chosen;
  cpu::RequireSupported(ExpertUseSupports(args.spec), "ExpertUse");
  cpu::RequireRoutes(args.ids, args.tokens, chosen, experts, "ExpertUse");
  cpu::RequireWorkspace(args.workspace, ExpertUseWorkspaceBytes(args.spec, args.tokens),
                        "ExpertUse");
  auto* entropies = static_cast<double*>(args.workspace.data);
  cpu::ParallelFor(args.tokens, 8 * experts, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      if (args.ids[t * chosen] >= 0) entropies[t] = Entropy(args.spec, args.logits + t * experts);
    }
  });
  for (int64_t e = 0; e < experts; ++e) args.sums[e] += args.counts[e];
  double* ends = args.sums + experts;
  double rows = 0.0, sum = 0.0;
  for (int64_t t = 0; t < args.tokens; ++t) {
    if (args.ids[t * chosen] < 0 || !std::isfinite(entropies[t])) continue;
    rows += 1.0;
    sum += entropies[t];
  }
  ends[0] += rows;
  ends[1] += sum;
}

// A router at a time: they are few.

void BalanceBias(const BalanceBiasArgs& args, Stream* /*stream*/) {
  if (*args.skip != 0 || *args.rate == 0.0f) return;
  for (int64_t r = 0; r < args.routers; ++r) {
    const double* counts = args.counts + r * args.stride;
    float* bias = args.bias + r * args.experts;
    double all = 0.0;
    for (int64_t e = 0; e < args.experts; ++e) all += counts[e];
    for (int64_t e = 0; e < args.experts; ++e) {
      const double own = counts[e] * static_cast<double>(args.experts);
      if (own < all) bias[e] += *args.rate;
      if (own > all) bias[e] -= *args.rate;
    }
  }
}

}  // namespace coxswain::kernels
