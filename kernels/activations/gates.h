// Gates on packed gate and up, and GELU of every element.
//
// `amax`, where an op has one, is a float32 on the device, >= 0. It becomes the largest size of the
// elements that the op stores in the tensor named beside it, where this is larger: as bits of
// integers are, so that infinity is above all numbers and NaN above infinity (Fp8QuantizeArgs::amax
// of quantize/fp8.h). Null: not wanted.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_GATES_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_GATES_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// SwiGLU on packed gate and up: y = silu(gate) up, silu(a) = a s(a), s the logistic function.
//   dgate = dy up s(gate) (1 + gate (1 - s(gate)));  dup = dy silu(gate)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
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
  float* amax = nullptr;          // of y
};
void SwigluForward(const SwigluForwardArgs& args, Stream* stream);

struct SwigluBackwardArgs {
  SwigluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
  float* amax = nullptr;     // of the gradient of gate_up
};
void SwigluBackward(const SwigluBackwardArgs& args, Stream* stream);

// The gate of gpt-oss's experts on packed gate and up. With g = min(gate, L),
// u = max(-L, min(up, L)) and s = 1 / (1 + exp(-a g)),
//   y = (u + 1) g s
//   dgate = dy (u + 1) s (1 + a g (1 - s)), 0 where gate > L;  dup = dy g s, 0 where |up| > L
// NaN passes through every clamp. Source: transformers GptOssExperts.
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
  float* amax = nullptr;          // of y
};
void ClampedSwigluForward(const ClampedSwigluForwardArgs& args, Stream* stream);

struct ClampedSwigluBackwardArgs {
  ClampedSwigluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
  float* amax = nullptr;     // of the gradient of gate_up
};
void ClampedSwigluBackward(const ClampedSwigluBackwardArgs& args, Stream* stream);

// GeGLU on packed gate and up: y = gelu(gate) up.
//   tanh form: gelu(a) = a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)));  erf form: a/2 (1 +
//   erf(a/sqrt 2));  dgate = dy up gelu'(gate);  dup = dy gelu(gate)
// Source: Shazeer, "GLU Variants Improve Transformer", 2020; torch.nn.functional.gelu.
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
  float* amax = nullptr;          // of y
};
void GegluForward(const GegluForwardArgs& args, Stream* stream);

struct GegluBackwardArgs {
  GegluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, I]
  void* gate_up = nullptr;   // [T, 2 I]
  void* gradient = nullptr;  // [T, 2 I], of gate_up; null: overwrites it
  void* y = nullptr;         // [T, I], the forward's output once more; may be dy; null: not wanted
  float* amax = nullptr;     // of the gradient of gate_up
};
void GegluBackward(const GegluBackwardArgs& args, Stream* stream);

// GELU of every element: y = gelu(x), in the tanh form or the erf form of gates.h; dx = dy
// gelu'(x). Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016;
// torch.nn.functional.gelu.
struct GeluSpec {
  DType dtype = DType::kFloat32;
  int64_t columns = 0;  // C
  bool tanh = true;     // false: erf
};
bool GeluSupports(const GeluSpec& spec);

struct GeluForwardArgs {
  GeluSpec spec = {};
  int64_t rows = 0;         // T; T C may exceed 2^31
  const void* x = nullptr;  // [T, C]
  void* y = nullptr;        // [T, C]
  float* amax = nullptr;    // of y
};
void GeluForward(const GeluForwardArgs& args, Stream* stream);

struct GeluBackwardArgs {
  GeluSpec spec = {};
  int64_t rows = 0;
  const void* dy = nullptr;  // [T, C]
  void* x = nullptr;         // [T, C]
  void* gradient = nullptr;  // [T, C], of x; null: overwrites it
  float* amax = nullptr;     // of the gradient of x
};
void GeluBackward(const GeluBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_GATES_H_
