// A row at a time. The values of a row are made once, on the stack, and read k times: each pass
// takes the best expert behind the one before in the order (value falling, index rising), so that
// no expert is marked. Exp is off by 4 u, u = 2^-24, as relative error, a logistic value by 6 u.
#include "kernels/experts/route.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/check.h"
#include "kernels/cpu/experts/expert_checks.h"
#include "kernels/cpu/experts/router_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLeast = 1e-20f;  // added to a sum of logistic values

COXSWAIN_VECTORIZE void LogisticRow(const float* logits, float* s, int64_t n) {
  for (int64_t e = 0; e < n; ++e) s[e] = 1.0f / (1.0f + cpu::Exp(-logits[e]));
}

bool HasNan(const float* values, int64_t n) {
  return std::any_of(values, values + n, [](float value) { return value != value; });
}

// The sum of the two largest values of each group, of one value where it has one alone.
void GroupValues(const RouteSpec& spec, const float* values, float* groups) {
  const int64_t size = spec.experts / spec.groups;
  for (int64_t g = 0; g < spec.groups; ++g) {
    const float* of = values + g * size;
    float first = of[0], second = size > 1 ? -std::numeric_limits<float>::infinity() : 0.0f;
    for (int64_t e = 1; e < size; ++e) {
      second = std::max(second, std::min(first, of[e]));
      first = std::max(first, of[e]);
    }
    groups[g] = first + second;
  }
}

// The `count` best of n by value among those that may be taken, of equals the lower index.
template <typename MayTake>
void Best(const float* values, int64_t n, int64_t count, const MayTake& may_take, int32_t* best) {
  for (int64_t j = 0; j < count; ++j) {
    int64_t next = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (!may_take(i)) continue;
      const bool behind = j == 0 || values[i] < values[best[j - 1]] ||
                          (values[i] == values[best[j - 1]] && i > best[j - 1]);
      if (behind && (next < 0 || values[i] > values[next])) next = i;
    }
    best[j] = static_cast<int32_t>(next);
  }
}

// False where values cannot be ordered: a NaN is among them or among those of groups.
bool Choose(const RouteSpec& spec, const float* values, int32_t* ids) {
  if (HasNan(values, spec.experts)) return false;
  if (spec.top_groups == spec.groups) {
    Best(
        values, spec.experts, spec.chosen, [](int64_t) { return true; }, ids);
    return true;
  }
  float groups[kMostExperts];
  int32_t best[kMostExperts];
  bool open[kMostExperts] = {};
  GroupValues(spec, values, groups);
  if (HasNan(groups, spec.groups)) return false;
  Best(
      groups, spec.groups, spec.top_groups, [](int64_t) { return true; }, best);
  for (int64_t g = 0; g < spec.top_groups; ++g) open[best[g]] = true;
  const int64_t size = spec.experts / spec.groups;
  Best(
      values, spec.experts, spec.chosen, [&](int64_t e) { return open[e / size]; }, ids);
  return true;
}

// softmax over the chosen; ids[0] has the largest logit.
void ChosenSoftmax(const RouteSpec& spec, const float* logits, const int32_t* ids, float* q) {
  float sum = 0.0f;
  for (int64_t j = 0; j < spec.chosen; ++j) {
    q[j] = cpu::Exp(logits[ids[j]] - logits[ids[0]]);
    sum += q[j];
  }
  for (int64_t j = 0; j < spec.chosen; ++j) q[j] /= sum;
}

// s of the chosen, before scale; *sum is d where the scores are logistic and renormalised, else 1.
void ChosenScores(const RouteSpec& spec, const float* logits, const int32_t* ids, float* scores,
                  float* sum) {
  *sum = 1.0f;
  if (spec.score == RouterScore::kSoftmax) {
    if (spec.renormalise) {
      ChosenSoftmax(spec, logits, ids, scores);
      return;
    }
    const cpu::RouterRow row = cpu::ReadRouterRow(logits, spec.experts);
    for (int64_t j = 0; j < spec.chosen; ++j) {
      scores[j] = cpu::Exp(logits[ids[j]] - row.maximum) / row.sum;
    }
    return;
  }
  float total = 0.0f;
  for (int64_t j = 0; j < spec.chosen; ++j) {
    scores[j] = 1.0f / (1.0f + cpu::Exp(-logits[ids[j]]));
    total += scores[j];
  }
  if (spec.renormalise) *sum = total + kLeast;
}

void ForwardRow(const RouteForwardArgs& args, int64_t t) {
  const RouteSpec& spec = args.spec;
  const float* logits = args.logits + t * spec.experts;
  int32_t* ids = args.ids + t * spec.chosen;
  float* weights = args.weights + t * spec.chosen;
  if (args.padding != nullptr && args.padding[t] < 0) {
    std::fill_n(ids, spec.chosen, -1);
    std::fill_n(weights, spec.chosen, 0.0f);
    return;
  }
  float values[kMostExperts];
  if (spec.score == RouterScore::kSoftmax) {
    std::copy_n(logits, spec.experts, values);
  } else {
    LogisticRow(logits, values, spec.experts);
    for (int64_t e = 0; args.bias != nullptr && e < spec.experts; ++e) values[e] += args.bias[e];
  }
  if (!Choose(spec, values, ids)) {
    for (int64_t j = 0; j < spec.chosen; ++j) ids[j] = static_cast<int32_t>(j);
    std::fill_n(weights, spec.chosen, kNan);
    return;
  }
  float sum;
  ChosenScores(spec, logits, ids, weights, &sum);
  for (int64_t j = 0; j < spec.chosen; ++j) weights[j] = spec.scale * (weights[j] / sum);
}

// dlogits holds zeros. Sums over the chosen in double: g_j and their mean cancel.
void SigmoidBackwardRow(const RouteSpec& spec, const int32_t* ids, const float* s, float sum,
                        const float* g, float* dlogits) {
  double mean = 0.0;
  for (int64_t j = 0; spec.renormalise && j < spec.chosen; ++j) {
    mean += static_cast<double>(g[j]) * s[j] / sum;
  }
  for (int64_t j = 0; j < spec.chosen; ++j) {
    const double ds = spec.scale * (g[j] - mean) / sum;
    dlogits[ids[j]] = static_cast<float>(ds * s[j] * (1.0 - s[j]));
  }
}

void SoftmaxBackwardRow(const RouteSpec& spec, const float* logits, const int32_t* ids,
                        const float* p, const float* g, float* dlogits) {
  double mean = 0.0;
  for (int64_t j = 0; j < spec.chosen; ++j) mean += static_cast<double>(g[j]) * p[j];
  if (!spec.renormalise) {
    const cpu::RouterRow row = cpu::ReadRouterRow(logits, spec.experts);
    const double factor = -spec.scale * mean / row.sum;
    for (int64_t e = 0; e < spec.experts; ++e) {
      dlogits[e] = static_cast<float>(factor * cpu::Exp(logits[e] - row.maximum));
    }
  }
  for (int64_t j = 0; j < spec.chosen; ++j) {
    dlogits[ids[j]] = static_cast<float>(spec.scale * p[j] * (g[j] - mean));
  }
}

void BackwardRow(const RouteBackwardArgs& args, int64_t t) {
  const RouteSpec& spec = args.spec;
  const float* logits = args.logits + t * spec.experts;
  const int32_t* ids = args.ids + t * spec.chosen;
  const float* g = args.dweights + t * spec.chosen;
  float* dlogits = args.dlogits + t * spec.experts;
  std::fill_n(dlogits, spec.experts, 0.0f);
  if (ids[0] < 0) return;
  if (HasNan(logits, spec.experts)) {
    std::fill_n(dlogits, spec.experts, kNan);
    return;
  }
  float scores[kMostExperts], sum;
  ChosenScores(spec, logits, ids, scores, &sum);
  if (spec.score == RouterScore::kSoftmax) {
    SoftmaxBackwardRow(spec, logits, ids, scores, g, dlogits);
  } else {
    SigmoidBackwardRow(spec, ids, scores, sum, g, dlogits);
  }
}

}  // namespace

void RouteForward(const RouteForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(RouteSupports(args.spec), "Route");
  if (args.bias != nullptr && args.spec.score != RouterScore::kSigmoid) {
    throw std::invalid_argument("Route: a bias of scores by softmax; it is of kSigmoid alone");
  }
  cpu::ParallelFor(args.tokens, (args.spec.chosen + 8) * args.spec.experts,
                   [&](int64_t begin, int64_t end) {
                     for (int64_t t = begin; t < end; ++t) ForwardRow(args, t);
                   });
}

void RouteBackward(const RouteBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(RouteSupports(args.spec), "Route");
  cpu::RequireRoutes(args.ids, args.tokens, args.spec.chosen, args.spec.experts, "Route");
  cpu::ParallelFor(args.tokens, 8 * args.spec.experts, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) BackwardRow(args, t);
  });
}

}  // namespace coxswain::kernels
