// The linear of every expert of a mixture over that expert's rows, which lie behind one another:
// expert e has rows offsets[e] to offsets[e + 1] (expert_rows.h).
//   y_i = W_e x_i + b_e;  dx_i = W_e^T dy_i;  dW_e = sum over i of dy_i x_i^T;  db_e = sum of dy_i
// The offsets are read on the device, so one captured graph serves every distribution: all rows to
// one expert, experts with none. Rows behind offsets[E] belong to no expert: they are not read, and
// their y and dx are 0. A mixture may be computed a few experts at a time: those from e on have
// `offsets + e`; rows before offsets[0] then stay as they are, and those behind too without
// `zeros_behind`.
// Sums have a fixed order. On the CPU the bits of a row may depend on how many rows its expert has,
// as BLAS picks a kernel by size. On CUDA they do not, and an expert's dW and db depend on its own
// rows alone; bfloat16 is fast where K and N are multiples of 8 and all matrices are aligned to 16
// bytes. A sum that is added to a bfloat16 dW may be rounded before.
#ifndef COXSWAIN_KERNELS_EXPERTS_GROUPED_LINEAR_H_
#define COXSWAIN_KERNELS_EXPERTS_GROUPED_LINEAR_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct GroupedLinearSpec {
  DType dtype = DType::kFloat32;       // x, W, b, y, dy, dx
  DType grad_dtype = DType::kFloat32;  // dW, db
  int64_t experts = 0;                 // E
  int64_t in_features = 0;             // K
  int64_t out_features = 0;            // N
};
bool GroupedLinearSupports(const GroupedLinearSpec& spec);

struct GroupedLinearForwardArgs {
  GroupedLinearSpec spec = {};
  int64_t rows = 0;                  // R, at least offsets[E]
  const int32_t* offsets = nullptr;  // [E + 1]
  const void* x = nullptr;           // [R, K]
  const void* weight = nullptr;      // [E, N, K]
  const void* bias = nullptr;        // [E, N]; null: none
  void* y = nullptr;                 // [R, N]
  bool zeros_behind = true;
};
void GroupedLinearForward(const GroupedLinearForwardArgs& args, Stream* stream);

struct GroupedLinearInputGradientArgs {
  GroupedLinearSpec spec = {};
  int64_t rows = 0;
  const int32_t* offsets = nullptr;
  const void* dy = nullptr;      // [R, N]
  const void* weight = nullptr;  // [E, N, K]
  void* dx = nullptr;            // [R, K]
  bool zeros_behind = true;
};
void GroupedLinearInputGradient(const GroupedLinearInputGradientArgs& args, Stream* stream);

// With accumulate dW and db are added to, else overwritten, by zeros for an expert without rows.
struct GroupedLinearWeightGradientArgs {
  GroupedLinearSpec spec = {};
  int64_t rows = 0;
  const int32_t* offsets = nullptr;
  const void* dy = nullptr;  // [R, N]
  const void* x = nullptr;   // [R, K]
  bool accumulate = false;
  void* dweight = nullptr;  // [E, N, K]; null: not wanted
  void* dbias = nullptr;    // [E, N]; null: not wanted
};
void GroupedLinearWeightGradient(const GroupedLinearWeightGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_GROUPED_LINEAR_H_
