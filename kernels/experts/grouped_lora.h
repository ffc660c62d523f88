// The adapters of every expert of a mixture over that expert's rows (grouped_linear.h): expert e
// has A_e [r, K] and B_e [N, r].
//   h_i = A_e x_i;  y_i += scale B_e h_i
//   dh_i = scale B_e^T dy_i;  dA_e += sum of dh_i x_i^T;  dB_e += scale sum of dy_i h_i^T
//   dx_i += A_e^T dh_i
// h and dh are rounded to dtype. Rows behind offsets[E] are not read; their h is 0, and their y and
// dx stay as they are. Sums have a fixed order; on a GPU that of dA and dB depends on all offsets,
// for what the rows of an expert are cut into does.
// Source: peft ParamWrapper, whose delta of expert e is scale B_e A_e.
#ifndef COXSWAIN_KERNELS_EXPERTS_GROUPED_LORA_H_
#define COXSWAIN_KERNELS_EXPERTS_GROUPED_LORA_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GroupedLoraSpec {
  DType dtype = DType::kFloat32;       // x, y, A, B, h and the gradients of rows
  DType grad_dtype = DType::kFloat32;  // dA, dB
  int64_t experts = 0;                 // E
  int64_t in_features = 0;             // K
  int64_t out_features = 0;            // N
  int64_t rank = 0;                    // r
  float scale = 1.0f;
};
bool GroupedLoraSupports(const GroupedLoraSpec& spec);

struct GroupedLoraForwardArgs {
  GroupedLoraSpec spec = {};
  int64_t rows = 0;                  // R, at least offsets[E]
  const int32_t* offsets = nullptr;  // [E + 1]
  const void* x = nullptr;           // [R, K]
  const void* a = nullptr;           // [E, r, K]
  const void* b = nullptr;           // [E, N, r]
  void* h = nullptr;                 // [R, r], kept for backward
  void* y = nullptr;                 // [R, N], added to
};
void GroupedLoraForward(const GroupedLoraForwardArgs& args, Stream* stream);

struct GroupedLoraBackwardArgs {
  GroupedLoraSpec spec = {};
  int64_t rows = 0;
  const int32_t* offsets = nullptr;
  const void* x = nullptr;   // [R, K]
  const void* a = nullptr;   // [E, r, K]
  const void* b = nullptr;   // [E, N, r]
  const void* h = nullptr;   // [R, r], of forward
  const void* dy = nullptr;  // [R, N]
  void* da = nullptr;        // [E, r, K], added to
  void* db = nullptr;        // [E, N, r], added to
  void* dx = nullptr;        // [R, K], added to; null: not wanted
  Workspace workspace = {};
};
int64_t GroupedLoraBackwardWorkspaceBytes(const GroupedLoraSpec& spec, int64_t rows);
void GroupedLoraBackward(const GroupedLoraBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_GROUPED_LORA_H_
