// The two products of a gated MLP that touch its inner width, with the gated unit that follows
// them: SwiGLU or GeGLU.
//   Forward:  gate_up = x W^T, y = act(gate) up
//   Backward: dy = dout V, then dgate = dy up act'(gate), dup = dy act(gate)
// W [2 I, H] has the rows of gate before those of up, V [H, I] is the down projection. gate_up and
// dy are rounded to the type before the activation reads them: y and the gradient are bit-equal to
// the gate of gates.h on them, whatever runs.
// Source: Shazeer, "GLU Variants Improve Transformer", 2020.
#ifndef COXSWAIN_KERNELS_PRODUCTS_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_PRODUCTS_GATED_LINEAR_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

// silu; gelu in its tanh form; gelu in its erf form.
enum class GateActivation { kSilu, kGeluTanh, kGelu };

struct GatedLinearSpec {
  DType dtype = DType::kFloat32;
  int64_t hidden = 0;        // H
  int64_t intermediate = 0;  // I
  GateActivation activation = GateActivation::kSilu;
};
bool GatedLinearSupports(const GatedLinearSpec& spec);

// CUDA: one launch or a product and an elementwise pass, by the table of gemm.h: while tuning is
// on, the first launch of each spec and number of rows times both on its own operands (outputs and
// gate_up may be left with any value). The choice does not depend on which outputs are wanted.
struct GatedLinearForwardArgs {
  GatedLinearSpec spec = {};
  int64_t rows = 0;              // T
  const void* x = nullptr;       // [T, H]
  const void* weight = nullptr;  // W [2 I, H]
  void* gate_up = nullptr;       // [T, 2 I], overwritten
  void* y = nullptr;             // [T, I], overwritten; null: not wanted
  Workspace workspace = {};      // GEMM scratch of the plan
};
void GatedLinearForward(const GatedLinearForwardArgs& args, Stream* stream);

struct GatedLinearBackwardArgs {
  GatedLinearSpec spec = {};
  int64_t rows = 0;
  const void* dout = nullptr;    // [T, H]
  const void* weight = nullptr;  // V [H, I]
  void* gate_up = nullptr;       // [T, 2 I], overwritten by its gradient
  // [T, I], overwritten: by y of the forward where `wants_y`, else by anything.
  void* y = nullptr;
  bool wants_y = false;
  Workspace workspace = {};
};
void GatedLinearBackward(const GatedLinearBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PRODUCTS_GATED_LINEAR_H_
