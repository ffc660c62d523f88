// The clamped gate of one gate and up value, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_CLAMPED_SWIGLU_H_
#define COXSWAIN_TESTS_REFERENCE_CLAMPED_SWIGLU_H_

#include <algorithm>
#include <cmath>

namespace coxswain::reference {

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

#endif  // COXSWAIN_TESTS_REFERENCE_CLAMPED_SWIGLU_H_
