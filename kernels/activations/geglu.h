// GeGLU on packed gate and up: y = gelu(gate) up.
//   tanh form: gelu(a) = a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)));  erf form: a/2 (1 +
//   erf(a/sqrt 2));  dgate = dy up gelu'(gate);  dup = dy gelu(gate)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; torch.nn.functional.gelu.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_GEGLU_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_GEGLU_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GegluSpec {
  DType dtype = DType::kFloat32;
  int64_t intermediate = 0;  // I
  bool tanh = true;          // false: erf
};
bool GegluSupports(const GegluSpec& spec);

struct GegluForwardArgs {
  GegluSpec spec = {};
  int64_t rows = 0;               // T
  const void* gate_up = nullptr;  // [T, 2 I]: gate, up
  void* y = nullptr;              // [T, I]
};
void GegluForward(const GegluForwardArgs& args, Stream* stream);

struct GegluBackwardArgs {
  GegluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
};
void GegluBackward(const GegluBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_GEGLU_H_
