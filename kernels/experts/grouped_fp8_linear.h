// The product of the rows of each expert with that expert's matrix (grouped_linear.h), of operands
// in FP8 (quantize/fp8.h): the rows have one scale, each matrix has one.
//   y_i = s_x s_e sum over k of x_ik W_e,nk (+ b_e),  x and W being values of codes
// Forward: x are the rows, W_e the weight of the expert. The gradient of the rows, dx_i = W_e^T
// dy_i: x is dy, W_e the weight turned, [in, out]. A gradient of weights sums over rows, whose
// number is any and differs by expert; it has no product in FP8. Segments, rows behind them and
// captured graphs are those of grouped_linear.h. Sums are in float32, on tensor cores as in
// products/fp8_gemm.h without `promote`; both scales multiply the sum, that of the rows first. Bits
// as of grouped_linear.h: on CUDA those of a row depend on no other row.
#ifndef COXSWAIN_KERNELS_EXPERTS_GROUPED_FP8_LINEAR_H_
#define COXSWAIN_KERNELS_EXPERTS_GROUPED_FP8_LINEAR_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/quantize/quantized_formats.h"

namespace coxswain::kernels {

struct GroupedFp8LinearSpec {
  DType dtype = DType::kFloat32;            // b, y
  Fp8Format row_format = Fp8Format::kE4M3;  // of x; matrices are in E4M3
  int64_t experts = 0;                      // E
  int64_t in_features = 0;                  // K
  int64_t out_features = 0;                 // N
};
// CUDA: bfloat16 on compute capability 9.0, N a multiple of 8. The CPU: float32.
bool GroupedFp8LinearSupports(const GroupedFp8LinearSpec& spec);
int64_t GroupedFp8LinearWorkspaceBytes(const GroupedFp8LinearSpec& spec, int64_t rows);

struct GroupedFp8LinearArgs {
  GroupedFp8LinearSpec spec = {};
  int64_t rows = 0;                      // R, at least offsets[E]
  const int32_t* offsets = nullptr;      // [E + 1], from 0 on
  const uint8_t* x = nullptr;            // [R, Fp8Stride(K)], aligned to 16 bytes
  const float* x_scale = nullptr;        // one
  const uint8_t* weight = nullptr;       // [E, N, Fp8Stride(K)], likewise
  const float* weight_scales = nullptr;  // [E]
  const void* bias = nullptr;            // [E, N], at any element; null: none
  void* y = nullptr;                     // [R, N], aligned to 16 bytes; rows behind offsets[E]: 0
  Workspace workspace = {};
};
void GroupedFp8Linear(const GroupedFp8LinearArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_EXPERTS_GROUPED_FP8_LINEAR_H_
