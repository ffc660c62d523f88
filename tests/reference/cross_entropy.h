// Cross-entropy of one row of logits with label smoothing, z-loss and softcap, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_
#define COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace coxswain::reference {

template <typename T>
struct CrossEntropyOptions {
  T label_smoothing = 0, z_loss = 0;
  T softcap = 0;  // k > 0: z = k tanh(logit / k)
};

template <typename T>
struct CrossEntropyLoss {
  T loss, nll, lse;
};

template <typename T>
T Softcap(const CrossEntropyOptions<T>& options, T logit) {
  return options.softcap > 0 ? options.softcap * std::tanh(logit / options.softcap) : logit;
}

template <typename T>
CrossEntropyLoss<T> CrossEntropy(const CrossEntropyOptions<T>& options, const T* logits,
                                 int64_t vocab, int64_t target) {
  const T maximum = Softcap(options, *std::max_element(logits, logits + vocab));
  T sum = 0, total = 0;
  for (int64_t v = 0; v < vocab; ++v) {
    const T z = Softcap(options, logits[v]);
    sum += std::exp(z - maximum);
    total += z;
  }
  const T lse = maximum + std::log(sum), nll = lse - Softcap(options, logits[target]);
  const T uniform = lse - total / static_cast<T>(vocab);
  return {(1 - options.label_smoothing) * nll + options.label_smoothing * uniform +
              options.z_loss * lse * lse,
          nll, lse};
}

// dlogits [vocab] = scale times the gradient of the loss.
template <typename T>
void CrossEntropyBackward(const CrossEntropyOptions<T>& options, const T* logits, int64_t vocab,
                          int64_t target, T scale, T* dlogits) {
  const T lse = CrossEntropy(options, logits, vocab, target).lse;
  for (int64_t v = 0; v < vocab; ++v) {
    const T z = Softcap(options, logits[v]), p = std::exp(z - lse);
    T gradient = p - options.label_smoothing / static_cast<T>(vocab) + 2 * options.z_loss * lse * p;
    if (v == target) gradient -= 1 - options.label_smoothing;
    const T ratio = options.softcap > 0 ? z / options.softcap : T{0};
    dlogits[v] = scale * gradient * (1 - ratio * ratio);
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_CROSS_ENTROPY_H_
