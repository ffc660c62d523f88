#include "kernels/cuda/tensor_map.h"

#include <cudaTypedefs.h>

#include "kernels/cuda/stream.h"
#include "kernels/dtype.h"

namespace coxswain::kernels::cuda {
namespace {

// The driver's function, through the runtime: the driver is not linked.
PFN_cuTensorMapEncodeTiled_v12000 Encode() {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CheckCuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                               cudaEnableDefault, &found),
              "cudaGetDriverEntryPointByVersion");
    if (found != cudaDriverEntryPointSuccess) {
      throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
    }
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  }();
  return encode;
}

}  // namespace

TensorMap MakeTensorMap(const Boxes& boxes) {
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(boxes.columns),
                                 static_cast<cuuint64_t>(boxes.rows)};
  const cuuint64_t strides[1] = {
      static_cast<cuuint64_t>(boxes.stride * DTypeBytes(DType::kBFloat16))};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(boxes.box_columns),
                             static_cast<cuuint32_t>(boxes.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  TensorMap map;
  const CUresult result =
      Encode()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(boxes.data), extents,
               strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               boxes.box_columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw std::invalid_argument("cuTensorMapEncodeTiled refuses " + std::to_string(boxes.rows) +
                                " x " + std::to_string(boxes.columns) + ", stride " +
                                std::to_string(boxes.stride) + ": error " +
                                std::to_string(static_cast<int>(result)));
  }
  return map;
}

}  // namespace coxswain::kernels::cuda
