// GeGLU of one gate and up value, in either form of GELU, and its gradient.
#ifndef COXSWAIN_TESTS_REFERENCE_GEGLU_H_
#define COXSWAIN_TESTS_REFERENCE_GEGLU_H_

#include "tests/reference/gelu.h"

namespace coxswain::reference {

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
