// SwiGLU on packed gate and up: y = silu(gate) up, silu(a) = a s(a), s the logistic function.
//   dgate = dy up s(gate) (1 + gate (1 - s(gate)));  dup = dy silu(gate)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_SWIGLU_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_SWIGLU_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct SwigluSpec {
  DType dtype = DType::kFloat32;
  int64_t intermediate = 0;  // I
};
bool SwigluSupports(const SwigluSpec& spec);

struct SwigluForwardArgs {
  SwigluSpec spec = {};
  int64_t rows = 0;               // T
  const void* gate_up = nullptr;  // [T, 2 I]: gate, up
  void* y = nullptr;              // [T, I]
};
void SwigluForward(const SwigluForwardArgs& args, Stream* stream);

struct SwigluBackwardArgs {
  SwigluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
};
void SwigluBackward(const SwigluBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_SWIGLU_H_
