// Cross-entropy of one row of logits with label smoothing and z-loss, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_
#define COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace coxswain::reference {

template <typename T>
struct CrossEntropyOptions {
  T label_smoothing = 0, z_loss = 0;
};

template <typename T>
struct CrossEntropyLoss {
  T loss, nll, lse;
};

template <typename T>
CrossEntropyLoss<T> CrossEntropy(const CrossEntropyOptions<T>& options, const T* z, int64_t vocab,
                                 int64_t target) {
  const T maximum = *std::max_element(z, z + vocab);
  T sum = 0, total = 0;
  for (int64_t v = 0; v < vocab; ++v) {
    sum += std::exp(z[v] - maximum);
    total += z[v];
  }
  const T lse = maximum + std::log(sum), nll = lse - z[target];
  const T uniform = lse - total / static_cast<T>(vocab);
  return {(1 - options.label_smoothing) * nll + options.label_smoothing * uniform +
              options.z_loss * lse * lse,
          nll, lse};
}

// dz [vocab] = scale times the gradient of the loss.
template <typename T>
void CrossEntropyBackward(const CrossEntropyOptions<T>& options, const T* z, int64_t vocab,
                          int64_t target, T scale, T* dz) {
  const T lse = CrossEntropy(options, z, vocab, target).lse;
  for (int64_t v = 0; v < vocab; ++v) {
    const T p = std::exp(z[v] - lse);
    T gradient = p - options.label_smoothing / static_cast<T>(vocab) + 2 * options.z_loss * lse * p;
    if (v == target) gradient -= 1 - options.label_smoothing;
    dz[v] = scale * gradient;
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_
