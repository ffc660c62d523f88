// The balance and z losses of a pool of router logits, and their gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_ROUTER_LOSS_H_
#define COXSWAIN_TESTS_REFERENCE_ROUTER_LOSS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::reference {

// logits [N, E], ids [N, k], no row of them padding.
template <typename T>
struct RouterPool {
  int64_t rows, experts, chosen;
  const T* logits;
  const int64_t* ids;
};

template <typename T>
T RouterLogSum(const RouterPool<T>& pool, int64_t row) {
  const T* l = pool.logits + row * pool.experts;
  const T maximum = *std::max_element(l, l + pool.experts);
  T sum = 0;
  for (int64_t e = 0; e < pool.experts; ++e) sum += std::exp(l[e] - maximum);
  return maximum + std::log(sum);
}

// How often each expert is chosen, over the rows.
template <typename T>
std::vector<T> ExpertUse(const RouterPool<T>& pool) {
  std::vector<T> use(static_cast<size_t>(pool.experts), 0);
  for (int64_t i = 0; i < pool.rows * pool.chosen; ++i) {
    use[static_cast<size_t>(pool.ids[i])] += T{1} / static_cast<T>(pool.rows);
  }
  return use;
}

template <typename T>
struct RouterLosses {
  T balance, z;
};

template <typename T>
RouterLosses<T> RouterLoss(const RouterPool<T>& pool) {
  const std::vector<T> use = ExpertUse(pool);
  RouterLosses<T> losses{0, 0};
  for (int64_t t = 0; t < pool.rows; ++t) {
    const T lse = RouterLogSum(pool, t);
    losses.z += lse * lse / static_cast<T>(pool.rows);
    for (int64_t e = 0; e < pool.experts; ++e) {
      losses.balance += static_cast<T>(pool.experts) * use[static_cast<size_t>(e)] *
                        std::exp(pool.logits[t * pool.experts + e] - lse) /
                        static_cast<T>(pool.rows);
    }
  }
  return losses;
}

// dlogits [N, E] of a balance + b z.
template <typename T>
std::vector<T> RouterLossBackward(const RouterPool<T>& pool, T a, T b) {
  const std::vector<T> use = ExpertUse(pool);
  const T rows = static_cast<T>(pool.rows);
  std::vector<T> dlogits;
  for (int64_t t = 0; t < pool.rows; ++t) {
    const T lse = RouterLogSum(pool, t);
    const T* l = pool.logits + t * pool.experts;
    T mean = 0;
    for (int64_t e = 0; e < pool.experts; ++e) {
      mean += use[static_cast<size_t>(e)] * std::exp(l[e] - lse);
    }
    for (int64_t e = 0; e < pool.experts; ++e) {
      const T balance = a * static_cast<T>(pool.experts) * (use[static_cast<size_t>(e)] - mean);
      dlogits.push_back(std::exp(l[e] - lse) * (balance + 2 * b * lse) / rows);
    }
  }
  return dlogits;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ROUTER_LOSS_H_
