// SwiGLU of one gate and up value, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_SWIGLU_H_
#define COXSWAIN_TESTS_REFERENCE_SWIGLU_H_

#include <cmath>

namespace coxswain::reference {

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

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_SWIGLU_H_
