// The products of grouped_linear.h and grouped_lora.h on CUDA cores: float32, and bfloat16 where
// the kernels of tensor cores do not run.
#ifndef COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LINEAR_H_
#define COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LINEAR_H_

#include "kernels/experts/grouped_linear.h"

namespace coxswain::kernels::cuda {

// result = scale x W_e^T + bias_e, or result += scale x W_e^T where it accumulates; without bias
// then. Rows behind the last segment are zeros; they stay as they are where it accumulates.
struct PlainGroupedRows {
  DType dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  int64_t experts = 0, rows = 0;
  int64_t in = 0, out = 0;        // columns of the operand, of the result
  bool turned = false;            // W_e is [in, out]
  const void* operand = nullptr;  // [rows, in]
  const void* weight = nullptr;   // [experts, out, in]
  const void* bias = nullptr;     // [experts, out]; null: none
  float scale = 1.0f;
  bool accumulate = false;
  void* result = nullptr;  // [rows, out]
  bool zeros_behind = true;
};
void PlainGroupedProduct(const PlainGroupedRows& product, const char* op, Stream* stream);

// dW_e [out, in] = scale dy_e^T x_e, or added to it.
struct PlainGroupedWeights {
  DType dtype = DType::kFloat32, grad_dtype = DType::kFloat32;
  const int32_t* offsets = nullptr;
  int64_t experts = 0;
  int64_t in = 0, out = 0;
  const void* dy = nullptr;  // [rows, out]
  const void* x = nullptr;   // [rows, in]
  float scale = 1.0f;
  bool accumulate = false;
  void* dweight = nullptr;  // [experts, out, in]
};
void PlainGroupedProduct(const PlainGroupedWeights& product, const char* op, Stream* stream);

void PlainGroupedLinear(const GroupedLinearForwardArgs& args, Stream* stream);
void PlainGroupedLinear(const GroupedLinearInputGradientArgs& args, Stream* stream);
// The weight gradient alone.
void PlainGroupedLinear(const GroupedLinearWeightGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_EXPERTS_PLAIN_GROUPED_LINEAR_H_
