// GELU and its derivative at one point, in either form.
#ifndef COXSWAIN_TESTS_REFERENCE_GELU_H_
#define COXSWAIN_TESTS_REFERENCE_GELU_H_

#include <cmath>
#include <numbers>

namespace coxswain::reference {

template <typename T>
struct GeluPoint {
  T value, slope;
};

template <typename T>
GeluPoint<T> Gelu(T a, bool tanh) {
  if (tanh) {
    const T beta = std::sqrt(2 / std::numbers::pi_v<T>), kappa = static_cast<T>(0.044715);
    const T h = std::tanh(beta * (a + kappa * a * a * a));
    return {a / 2 * (1 + h), (1 + h) / 2 + a / 2 * (1 - h * h) * beta * (1 + 3 * kappa * a * a)};
  }
  const T below = std::erfc(-a / std::numbers::sqrt2_v<T>) / 2;
  const T density = std::exp(-a * a / 2) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
  return {a * below, below + a * density};
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_GELU_H_
