// Gates and GELU, forward and backward, in double.
#ifndef COXSWAIN_TESTS_REFERENCE_GATES_H_
#define COXSWAIN_TESTS_REFERENCE_GATES_H_

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coxswain::reference {

// GELU and its derivative at one point, in either form.

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

// GeGLU of one gate and up value, in either form of GELU, and its gradient.

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

// SwiGLU of one gate and up value, and its gradient.

template <typename T>
T Swiglu(T gate, T up) {
  return gate / (1 + std::exp(-gate)) * up;
}

template <typename T>
struct SwigluGradient {
  T gate, up;
};

template <typename T>
SwigluGradient<T> SwigluBackward(T dy, T gate, T up) {
  const T s = 1 / (1 + std::exp(-gate));
  return {dy * up * s * (1 + gate * (1 - s)), dy * gate * s};
}

// The clamped gate of one gate and up value, and its gradient.

template <typename T>
struct ClampedGate {
  T alpha, limit;
};

template <typename T>
T ClampedSwiglu(const ClampedGate<T>& c, T gate, T up) {
  const T g = std::min(gate, c.limit), u = std::clamp(up, -c.limit, c.limit);
  return (u + 1) * g / (1 + std::exp(-c.alpha * g));
}

template <typename T>
struct ClampedSwigluGradient {
  T gate = 0, up = 0;
};

template <typename T>
ClampedSwigluGradient<T> ClampedSwigluBackward(const ClampedGate<T>& c, T dy, T gate, T up) {
  const T g = std::min(gate, c.limit), u = std::clamp(up, -c.limit, c.limit);
  const T s = 1 / (1 + std::exp(-c.alpha * g));
  ClampedSwigluGradient<T> gradient;
  if (gate <= c.limit) gradient.gate = dy * (u + 1) * (s + c.alpha * g * s * (1 - s));
  if (std::abs(up) <= c.limit) gradient.up = dy * g * s;
  return gradient;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_GATES_H_
