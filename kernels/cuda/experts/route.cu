// The k experts of a token with their weights, and the gradient of the weights
// (kernels/experts/route.h).
//
// A warp has a token: expert e is in lane e % 32, a row of E <= 1024 in registers, read once, 128
// bytes at a time. Values become integers of the same order (-0 as 0), 0 for what may not be taken.
// A pass takes the largest: each lane finds its own, one instruction the warp's, another the lowest
// index among those that have it. k passes of E / 32 comparisons: latency, not bytes, is the time.
// With groups the values go through shared memory, where a lane has a group; it starts at its own
// element, so that lanes meet different banks, and the two largest do not depend on the order.
// The scores of the chosen are read again by a lane each.
//
// Backward makes the row of gradients in shared memory, of zeros or of what the softmax gives to
// all, puts those of the chosen there, and writes it once. Sums over the chosen are in double: g_j
// and their mean cancel.
//
// Bytes: 4 E + 8 k per token forward, 8 E + 8 k backward. Sums in a fixed order: bitwise
// deterministic. An exponential is off by 4 u, u = 2^-24, a logistic value by 6 u.
#include "kernels/experts/route.h"

#include <cmath>
#include <stdexcept>

#include "kernels/cuda/experts/router_row.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * cuda::kWarp;
constexpr float kLeast = 1e-20f;  // added to a sum of logistic values

__device__ __forceinline__ float Logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

// a < b as floats where it is as keys; -0 is 0, and no value has 0. Not of NaN.
__device__ __forceinline__ uint32_t OrderedKey(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Calls take(j, index) for the `count` largest of the warp's keys, of equals the lower index, and
// clears them.
template <int N, typename Take>
__device__ __forceinline__ void TakeLargest(uint32_t (&keys)[N], int count, const Take& take) {
  for (int j = 0; j < count; ++j) {
    uint32_t own = keys[0];
    int slot = 0;
#pragma unroll
    for (int i = 1; i < N; ++i) {
      if (keys[i] > own) own = keys[i], slot = i;
    }
    const uint32_t largest = __reduce_max_sync(~0u, own);
    const auto candidate = own == largest ? static_cast<uint32_t>(cuda::ExpertOf(slot)) : ~0u;
    const int index = static_cast<int>(__reduce_min_sync(~0u, candidate));
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (cuda::ExpertOf(i) == index) keys[i] = 0;
    }
    take(j, index);
  }
}

// The keys of groups by the sum of the two largest values of each, of one value where it has one
// alone. False where a sum is NaN.
template <int N>
__device__ __forceinline__ bool GroupKeys(const float* values, int groups, int size,
                                          uint32_t (&keys)[N]) {
  bool nan = false;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int g = cuda::ExpertOf(i);
    keys[i] = 0;
    if (g >= groups) continue;
    float first = -INFINITY, second = -INFINITY;
    int at = cuda::Lane() % size;
    for (int n = 0; n < size; ++n) {
      const float value = values[g * size + at];
      second = fmaxf(second, fminf(first, value));
      first = fmaxf(first, value);
      at = at + 1 == size ? 0 : at + 1;
    }
    const float sum = first + (size > 1 ? second : 0.0f);
    nan = nan || sum != sum;
    keys[i] = OrderedKey(sum);
  }
  return !__any_sync(~0u, nan);
}

// Clears the keys of experts whose group does not count. `shared` [E]. False where groups cannot be
// ordered.
template <int N>
__device__ __forceinline__ bool CloseGroups(const RouteSpec& spec, const float (&values)[N],
                                            float* shared, uint32_t (&keys)[N]) {
  const int experts = static_cast<int>(spec.experts), groups = static_cast<int>(spec.groups);
  const int size = experts / groups;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (cuda::ExpertOf(i) < experts) shared[cuda::ExpertOf(i)] = values[i];
  }
  __syncwarp();
  uint32_t group_keys[N];
  if (!GroupKeys(shared, groups, size, group_keys)) return false;
  uint32_t open = 0;  // bit i of a lane: the group that its element i is of
  TakeLargest(group_keys, static_cast<int>(spec.top_groups), [&](int, int group) {
    if (group % cuda::kWarp == cuda::Lane()) open |= 1u << (group / cuda::kWarp);
  });
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int group = cuda::ExpertOf(i) / size;
    const uint32_t of_group = __shfl_sync(~0u, open, group % cuda::kWarp);
    if ((of_group >> (group / cuda::kWarp) & 1u) == 0) keys[i] = 0;
  }
  return true;
}

// What experts are chosen by, of the row's logits.
template <int N>
__device__ __forceinline__ void ChoiceValues(const RouteForwardArgs& args, float (&row)[N]) {
  if (args.spec.score == RouterScore::kSoftmax) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int e = cuda::ExpertOf(i);
    row[i] = Logistic(row[i]);
    if (args.bias != nullptr && e < args.spec.experts) row[i] += args.bias[e];
  }
}

// The chosen experts into ids [k] of shared memory. `values` [E] is shared memory too, used where
// there are groups. False where values cannot be ordered: a NaN is among them or the groups'.
template <int N>
__device__ __forceinline__ bool Choose(const RouteSpec& spec, const float (&row)[N], float* values,
                                       int32_t* ids) {
  if (cuda::HasNan(row)) return false;
  uint32_t keys[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    keys[i] = cuda::ExpertOf(i) < spec.experts ? OrderedKey(row[i]) : 0;
  }
  if (spec.top_groups < spec.groups && !CloseGroups(spec, row, values, keys)) return false;
  TakeLargest(keys, static_cast<int>(spec.chosen), [&](int j, int expert) {
    if (cuda::Lane() == 0) ids[j] = expert;
  });
  __syncwarp();
  return true;
}

// s of a chosen expert is Of(its logit) / sum.
struct ChosenScores {
  bool sigmoid;
  float maximum, sum;

  __device__ __forceinline__ float Of(float logit) const {
    return sigmoid ? Logistic(logit) : expf(logit - maximum);
  }
};

// `softmax` is of all experts; its maximum is among the chosen.
__device__ __forceinline__ ChosenScores ScoresOf(const RouteSpec& spec,
                                                 const cuda::RouterSoftmax& softmax,
                                                 const float* logits, const int32_t* ids) {
  ChosenScores scores{spec.score == RouterScore::kSigmoid, softmax.maximum, 1.0f};
  if (!spec.renormalise) {
    if (!scores.sigmoid) scores.sum = softmax.sum;
    return scores;
  }
  float own = 0.0f;
  for (int j = cuda::Lane(); j < spec.chosen; j += cuda::kWarp) own += scores.Of(logits[ids[j]]);
  scores.sum = cuda::WarpSum(own);
  if (scores.sigmoid) scores.sum += kLeast;
  return scores;
}

template <int N>
__global__ void __launch_bounds__(kThreads) RouteForwardKernel(const RouteForwardArgs args) {
  extern __shared__ int32_t shared[];  // a warp: the ids [k], and values [E] where there are groups
  const RouteSpec& spec = args.spec;
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int experts = static_cast<int>(spec.experts), chosen = static_cast<int>(spec.chosen);
  const int64_t t = int64_t{blockIdx.x} * kWarps + warp;
  if (t >= args.tokens) return;
  int32_t* ids = args.ids + t * chosen;
  float* weights = args.weights + t * chosen;
  if (args.padding != nullptr && args.padding[t] < 0) {
    for (int j = cuda::Lane(); j < chosen; j += cuda::kWarp) ids[j] = -1, weights[j] = 0.0f;
    return;
  }
  const float* logits = args.logits + t * experts;
  float row[N];
  cuda::LoadRouterRow(logits, experts, row);
  cuda::RouterSoftmax softmax{};
  if (spec.score == RouterScore::kSoftmax) softmax = cuda::SoftmaxOf(row);
  ChoiceValues(args, row);
  int32_t* best = shared + warp * chosen;
  float* values = reinterpret_cast<float*>(shared + kWarps * chosen) + warp * experts;
  if (!Choose(spec, row, values, best)) {
    for (int j = cuda::Lane(); j < chosen; j += cuda::kWarp) ids[j] = j, weights[j] = nanf("");
    return;
  }
  const ChosenScores scores = ScoresOf(spec, softmax, logits, best);
  for (int j = cuda::Lane(); j < chosen; j += cuda::kWarp) {
    ids[j] = best[j];
    weights[j] = spec.scale * (scores.Of(logits[best[j]]) / scores.sum);
  }
}

// sum_j g_j s_j / d over the chosen, where gradients have it; else 0.
__device__ __forceinline__ double MeanOf(const RouteSpec& spec, const ChosenScores& scores,
                                         const float* logits, const int32_t* ids, const float* g) {
  if (scores.sigmoid && !spec.renormalise) return 0.0;
  double mean = 0.0;
  for (int j = cuda::Lane(); j < spec.chosen; j += cuda::kWarp) {
    mean += static_cast<double>(g[j]) * (scores.Of(logits[ids[j]]) / scores.sum);
  }
  return cuda::WarpSum(mean);
}

// Puts the gradients of the chosen into `row`, which holds those that all experts have.
__device__ __forceinline__ void ChosenGradients(const RouteSpec& spec, const ChosenScores& scores,
                                                double mean, const float* logits,
                                                const int32_t* ids, const float* g, float* row) {
  for (int j = cuda::Lane(); j < spec.chosen; j += cuda::kWarp) {
    const float score = scores.Of(logits[ids[j]]);
    const double ds = spec.scale * (static_cast<double>(g[j]) - mean);
    row[ids[j]] = static_cast<float>(scores.sigmoid ? ds / scores.sum * score * (1.0 - score)
                                                    : ds * static_cast<double>(score / scores.sum));
  }
}

// The gradient of token t's logits into `gradient` [E].
template <int N>
__device__ __forceinline__ void GradientOf(const RouteBackwardArgs& args, int64_t t,
                                           const float (&row)[N], float* gradient) {
  const RouteSpec& spec = args.spec;
  const float* logits = args.logits + t * spec.experts;
  const int32_t* ids = args.ids + t * spec.chosen;
  const float* g = args.dweights + t * spec.chosen;
  const bool softmax_of_all = spec.score == RouterScore::kSoftmax;
  const cuda::RouterSoftmax softmax = softmax_of_all ? cuda::SoftmaxOf(row) : cuda::RouterSoftmax{};
  const ChosenScores scores = ScoresOf(spec, softmax, logits, ids);
  const double mean = MeanOf(spec, scores, logits, ids, g);
  const bool reaches_all = softmax_of_all && !spec.renormalise;
  const double factor = -spec.scale * mean / scores.sum;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (cuda::ExpertOf(i) >= spec.experts) continue;
    gradient[cuda::ExpertOf(i)] =
        reaches_all ? static_cast<float>(factor * scores.Of(row[i])) : 0.0f;
  }
  __syncwarp();
  ChosenGradients(spec, scores, mean, logits, ids, g, gradient);
  __syncwarp();
}

template <int N>
__global__ void __launch_bounds__(kThreads) RouteBackwardKernel(const RouteBackwardArgs args) {
  extern __shared__ float gradients[];  // a warp: [E]
  const int warp = static_cast<int>(threadIdx.x) / cuda::kWarp;
  const int experts = static_cast<int>(args.spec.experts);
  const int64_t t = int64_t{blockIdx.x} * kWarps + warp;
  if (t >= args.tokens) return;
  float* gradient = gradients + warp * experts;
  float* dlogits = args.dlogits + t * experts;
  float row[N];
  const bool padding = args.ids[t * args.spec.chosen] < 0;
  if (!padding) cuda::LoadRouterRow(args.logits + t * experts, experts, row);
  if (padding || cuda::HasNan(row)) {
    const float all = padding ? 0.0f : nanf("");
    for (int e = cuda::Lane(); e < experts; e += cuda::kWarp) dlogits[e] = all;
    return;
  }
  GradientOf(args, t, row, gradient);
  for (int e = cuda::Lane(); e < experts; e += cuda::kWarp) dlogits[e] = gradient[e];
}

unsigned Blocks(int64_t tokens) { return static_cast<unsigned>(cuda::CeilDiv(tokens, kWarps)); }

}  // namespace

void RouteForward(const RouteForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(RouteSupports(args.spec), "Route");
  cuda::RequireExtent(args.tokens, "Route", "tokens");
  if (args.bias != nullptr && args.spec.score != RouterScore::kSigmoid) {
    throw std::invalid_argument("Route: a bias of scores by softmax; it is of kSigmoid alone");
  }
  if (args.tokens == 0) return;
  const int64_t values = args.spec.top_groups < args.spec.groups ? args.spec.experts : 0;
  const auto bytes = static_cast<size_t>(kWarps * (args.spec.chosen + values) * 4);
  cuda::ForExperts(args.spec.experts, [&](auto count) {
    RouteForwardKernel<decltype(count)::value>
        <<<Blocks(args.tokens), kThreads, bytes, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("RouteForward");
}

void RouteBackward(const RouteBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(RouteSupports(args.spec), "Route");
  cuda::RequireExtent(args.tokens, "Route", "tokens");
  if (args.tokens == 0) return;
  const auto bytes = static_cast<size_t>(kWarps * args.spec.experts * 4);
  cuda::ForExperts(args.spec.experts, [&](auto count) {
    RouteBackwardKernel<decltype(count)::value>
        <<<Blocks(args.tokens), kThreads, bytes, cuda::Handle(stream)>>>(args);
  });
  cuda::CheckLaunch("RouteBackward");
}

}  // namespace coxswain::kernels
