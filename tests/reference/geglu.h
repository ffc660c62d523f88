// GeGLU of one gate and up value, in either form of GELU, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_GEGLU_H_
#define COXSWAIN_TESTS_REFERENCE_GEGLU_H_

#include <cmath>
#include <numbers>

namespace coxswain::reference {

// GELU and its derivative at a.
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

template <typename T>
T Geglu(T gate, T up, bool tanh) {
  return Gelu(gate, tanh).value * up;
}

template <typename T>
struct GegluGradient {
  T gate, up;
};

template <typename T>
GegluGradient<T> GegluBackward(T dy, T gate, T up, bool tanh) {
  const GeluPoint<T> gelu = Gelu(gate, tanh);
  return {dy * up * gelu.slope, dy * gelu.value};
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_GEGLU_H_
