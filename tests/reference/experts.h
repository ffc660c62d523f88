// A mixture's experts as a loop over tokens and slots: the sum over a token's experts of weight
// times a linear, and its gradients.
#ifndef COXSWAIN_TESTS_REFERENCE_EXPERTS_H_
#define COXSWAIN_TESTS_REFERENCE_EXPERTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::reference {

// ids [T, k], -1: left out; weights [T, k]; x [T, K]; w [E, N, K]; bias [E, N].
template <typename T>
struct ExpertsProblem {
  int64_t tokens, chosen, experts, in, out;
  const int64_t* ids;
  const T *weights, *x, *w, *bias;
};

// y [T, N] = sum over slots of weight (W_e x + b_e).
template <typename T>
std::vector<T> Experts(const ExpertsProblem<T>& p) {
  std::vector<T> y(static_cast<size_t>(p.tokens * p.out), 0);
  for (int64_t pair = 0; pair < p.tokens * p.chosen; ++pair) {
    const int64_t e = p.ids[pair], t = pair / p.chosen;
    for (int64_t n = 0; e >= 0 && n < p.out; ++n) {
      T sum = p.bias[e * p.out + n];
      for (int64_t k = 0; k < p.in; ++k) {
        sum += p.w[(e * p.out + n) * p.in + k] * p.x[t * p.in + k];
      }
      y[static_cast<size_t>(t * p.out + n)] += p.weights[pair] * sum;
    }
  }
  return y;
}

template <typename T>
struct ExpertsGradient {
  std::vector<T> weights, x, w, bias;
};

template <typename T>
ExpertsGradient<T> ExpertsBackward(const ExpertsProblem<T>& p, const T* dy) {
  const auto zeros = [](int64_t n) { return std::vector<T>(static_cast<size_t>(n), 0); };
  ExpertsGradient<T> d{zeros(p.tokens * p.chosen), zeros(p.tokens * p.in),
                       zeros(p.experts * p.out * p.in), zeros(p.experts * p.out)};
  for (int64_t pair = 0; pair < p.tokens * p.chosen; ++pair) {
    const int64_t e = p.ids[pair], t = pair / p.chosen;
    for (int64_t n = 0; e >= 0 && n < p.out; ++n) {
      const T g = dy[t * p.out + n];
      T row = p.bias[e * p.out + n];
      for (int64_t k = 0; k < p.in; ++k) {
        const size_t at = static_cast<size_t>((e * p.out + n) * p.in + k);
        row += p.w[at] * p.x[t * p.in + k];
        d.x[static_cast<size_t>(t * p.in + k)] += p.weights[pair] * g * p.w[at];
        d.w[at] += p.weights[pair] * g * p.x[t * p.in + k];
      }
      d.bias[static_cast<size_t>(e * p.out + n)] += p.weights[pair] * g;
      d.weights[static_cast<size_t>(pair)] += g * row;
    }
  }
  return d;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_EXPERTS_H_
