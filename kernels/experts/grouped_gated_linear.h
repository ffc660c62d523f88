// Gate and up of every expert of a mixture (grouped_linear.h) with the gate that reads them:
//   gate_up_i = W_e x_i + b_e, y_i = f(gate_up_i)
// f is that of gates.h: SwiGLU, or the clamped gate where the spec has a limit. W_e has the rows of
// gate before those of up. gate_up is rounded to the type before f reads it: both results are
// bit-equal to those of the two ops, whatever runs. Rows behind offsets[E] are not read, and their
// gate_up and y are 0. Of a mixture that is computed a few experts at a time, all of y is there
// behind the launch of the last ones, which has `zeros_behind`.
#ifndef COXSWAIN_KERNELS_EXPERTS_GROUPED_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_EXPERTS_GROUPED_GATED_LINEAR_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GroupedGatedLinearSpec {
  DType dtype = DType::kFloat32;
  int64_t experts = 0;       // E
  int64_t in_features = 0;   // K
  int64_t intermediate = 0;  // I
  // Of the clamped gate; limit 0: SwiGLU, which has neither.
  float alpha = 0.0f, limit = 0.0f;
};
bool GroupedGatedLinearSupports(const GroupedGatedLinearSpec& spec);

// CUDA: one launch in bfloat16 on compute capability 9.0 where K and I are multiples of 8 and all
// matrices are aligned to 16 bytes, else the two ops.
struct GroupedGatedLinearForwardArgs {
  GroupedGatedLinearSpec spec = {};
  int64_t rows = 0;                  // R, at least offsets[E]
  const int32_t* offsets = nullptr;  // [E + 1]
  const void* x = nullptr;           // [R, K]
  const void* weight = nullptr;      // [E, 2 I, K]
  const void* bias = nullptr;        // [E, 2 I]; null: none
  void* gate_up = nullptr;           // [R, 2 I], overwritten: by anything where it is not wanted
  bool wants_gate_up = true;
  void* y = nullptr;  // [R, I], overwritten
  bool zeros_behind = true;
};
void GroupedGatedLinearForward(const GroupedGatedLinearForwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_GROUPED_GATED_LINEAR_H_
