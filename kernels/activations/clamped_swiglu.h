// The gate of gpt-oss's experts on packed gate and up. With g = min(gate, L),
// u = max(-L, min(up, L)) and s = 1 / (1 + exp(-a g)),
//   y = (u + 1) g s
//   dgate = dy (u + 1) s (1 + a g (1 - s)), 0 where gate > L;  dup = dy g s, 0 where |up| > L
// NaN passes through every clamp. Source: transformers GptOssExperts.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_CLAMPED_SWIGLU_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_CLAMPED_SWIGLU_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct ClampedSwigluSpec {
  DType dtype = DType::kFloat32;
  int64_t intermediate = 0;  // I
  float alpha = 0.0f;        // a > 0
  float limit = 0.0f;        // L > 0
};
bool ClampedSwigluSupports(const ClampedSwigluSpec& spec);

struct ClampedSwigluForwardArgs {
  ClampedSwigluSpec spec = {};
  int64_t rows = 0;               // T
  const void* gate_up = nullptr;  // [T, 2 I]: gate, up
  void* y = nullptr;              // [T, I]
};
void ClampedSwigluForward(const ClampedSwigluForwardArgs& args, Stream* stream);

struct ClampedSwigluBackwardArgs {
  ClampedSwigluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
};
void ClampedSwigluBackward(const ClampedSwigluBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_CLAMPED_SWIGLU_H_
