// A row scaled by the logistic function of its logit, and the gradients.
#ifndef COXSWAIN_TESTS_REFERENCE_SIGMOID_GATE_H_
#define COXSWAIN_TESTS_REFERENCE_SIGMOID_GATE_H_

#include <cmath>
#include <cstddef>
#include <vector>

namespace coxswain::reference {

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

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_SIGMOID_GATE_H_
