// The router of one token: k of E experts with their weights, and the gradient of the weights.
#ifndef COXSWAIN_TESTS_REFERENCE_ROUTE_H_
#define COXSWAIN_TESTS_REFERENCE_ROUTE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace coxswain::reference {

struct RouteOptions {
  int64_t experts, chosen;
  bool sigmoid = false, renormalise = false;
  int64_t groups = 1, top_groups = 1;
  double scale = 1;
};

template <typename T>
struct TokenRoute {
  std::vector<int64_t> ids;
  std::vector<T> weights;
};

template <typename T>
std::vector<T> RouterScores(const RouteOptions& o, const std::vector<T>& logits) {
  std::vector<T> scores;
  const T maximum = *std::max_element(logits.begin(), logits.end());
  T sum = 0;
  for (T l : logits) {
    scores.push_back(o.sigmoid ? 1 / (1 + std::exp(-l)) : std::exp(l - maximum));
    sum += scores.back();
  }
  if (!o.sigmoid) {
    for (T& s : scores) s /= sum;
  }
  return scores;
}

// The indices of the `count` largest, of equals the lower index.
template <typename T>
std::vector<int64_t> Largest(const std::vector<T>& values, int64_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  return order;
}

// What experts are chosen by: -inf in groups that are left out.
template <typename T>
std::vector<T> RouterChoices(const RouteOptions& o, const std::vector<T>& logits,
                             const std::vector<T>& bias) {
  std::vector<T> values = o.sigmoid ? RouterScores(o, logits) : logits;
  for (size_t e = 0; e < bias.size(); ++e) values[e] += bias[e];
  const size_t size = static_cast<size_t>(o.experts / o.groups);
  std::vector<T> groups;
  for (size_t first = 0; first < values.size(); first += size) {
    std::vector<T> group(values.begin() + static_cast<std::ptrdiff_t>(first),
                         values.begin() + static_cast<std::ptrdiff_t>(first + size));
    std::sort(group.begin(), group.end(), std::greater<T>());
    groups.push_back(group[0] + (size > 1 ? group[1] : T{0}));
  }
  const std::vector<int64_t> kept = Largest(groups, o.top_groups);
  for (size_t e = 0; e < values.size(); ++e) {
    if (std::find(kept.begin(), kept.end(), static_cast<int64_t>(e / size)) == kept.end()) {
      values[e] = -std::numeric_limits<T>::infinity();
    }
  }
  return values;
}

// The sum that weights are divided by.
template <typename T>
T RouterDivisor(const RouteOptions& o, const std::vector<T>& scores,
                const std::vector<int64_t>& ids) {
  if (!o.renormalise) return 1;
  T sum = o.sigmoid ? T{1e-20} : T{0};
  for (int64_t id : ids) sum += scores[static_cast<size_t>(id)];
  return sum;
}

template <typename T>
std::vector<T> RouterWeights(const RouteOptions& o, const std::vector<T>& logits,
                             const std::vector<int64_t>& ids) {
  const std::vector<T> scores = RouterScores(o, logits);
  std::vector<T> weights;
  for (int64_t id : ids) {
    weights.push_back(o.scale * scores[static_cast<size_t>(id)] / RouterDivisor(o, scores, ids));
  }
  return weights;
}

template <typename T>
TokenRoute<T> Route(const RouteOptions& o, const std::vector<T>& logits,
                    const std::vector<T>& bias = {}) {
  const std::vector<int64_t> ids = Largest(RouterChoices(o, logits, bias), o.chosen);
  return {ids, RouterWeights(o, logits, ids)};
}

// dlogits of dweights [k], through the scores: first by them, then by the logits.
template <typename T>
std::vector<T> RouteBackward(const RouteOptions& o, const std::vector<T>& logits,
                             const std::vector<int64_t>& ids, const std::vector<T>& dweights) {
  const std::vector<T> scores = RouterScores(o, logits);
  const T divisor = RouterDivisor(o, scores, ids);
  T mean = 0;
  for (size_t j = 0; o.renormalise && j < ids.size(); ++j) {
    mean += dweights[j] * scores[static_cast<size_t>(ids[j])] / divisor;
  }
  std::vector<T> dscores(logits.size(), 0), dlogits(logits.size());
  for (size_t j = 0; j < ids.size(); ++j) {
    dscores[static_cast<size_t>(ids[j])] = o.scale * (dweights[j] - mean) / divisor;
  }
  T dot = 0;
  for (size_t e = 0; e < logits.size(); ++e) dot += dscores[e] * scores[e];
  for (size_t e = 0; e < logits.size(); ++e) {
    dlogits[e] = scores[e] * (o.sigmoid ? dscores[e] * (1 - scores[e]) : dscores[e] - dot);
  }
  return dlogits;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ROUTE_H_
