// A mixture's experts as a loop over tokens and slots: the sum over a token's experts of weight
// times a linear, and its gradients.
#ifndef COXSWAIN_TESTS_REFERENCE_EXPERTS_H_
#define COXSWAIN_TESTS_REFERENCE_EXPERTS_H_

#include <algorithm>
#include <cmath>
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

// A row scaled by the logistic function of its logit, and the gradients.

template <typename T>
struct SigmoidGateGradient {
  std::vector<T> x;
  T logit = 0;
};

template <typename T>
std::vector<T> SigmoidGate(T logit, const std::vector<T>& x) {
  std::vector<T> y;
  for (const T value : x) y.push_back(value / (1 + std::exp(-logit)));
  return y;
}

template <typename T>
SigmoidGateGradient<T> SigmoidGateBackward(T logit, const std::vector<T>& x,
                                           const std::vector<T>& dy) {
  const T gate = 1 / (1 + std::exp(-logit));
  SigmoidGateGradient<T> gradient;
  for (size_t j = 0; j < x.size(); ++j) {
    gradient.x.push_back(gate * dy[j]);
    gradient.logit += dy[j] * x[j] * gate * (1 - gate);
  }
  return gradient;
}

// The entropy of a router's scores of one token, in nats.

// Of the softmax of `logits`, or of the logistic values over their sum.
template <typename T>
T RouterEntropy(const std::vector<T>& logits, bool sigmoid) {
  const T maximum = *std::max_element(logits.begin(), logits.end());
  std::vector<T> scores;
  T sum = 0, entropy = 0;
  for (const T l : logits) {
    scores.push_back(sigmoid ? 1 / (1 + std::exp(-l)) : std::exp(l - maximum));
    sum += scores.back();
  }
  for (const T score : scores) {
    if (score > 0) entropy -= score / sum * std::log(score / sum);
  }
  return entropy;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_EXPERTS_H_
