#include "kernels/cuda/tiles/tensor_map.h"

#include <cudaTypedefs.h>

#include <string>
#include <vector>

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

// Dimensions from the innermost on; `strides` are bytes, of all but the first.
struct Layout {
  const void* data = nullptr;
  std::vector<cuuint64_t> extents, strides;
  std::vector<cuuint32_t> box;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
};

TensorMap Encoded(const Layout& layout, CUtensorMapSwizzle swizzle) {
  const std::vector<cuuint32_t> steps(layout.box.size(), 1);
  TensorMap map;
  const CUresult result =
      Encode()(&map, layout.type, static_cast<cuuint32_t>(layout.box.size()),
               const_cast<void*>(layout.data), layout.extents.data(), layout.strides.data(),
               layout.box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  std::string extents;
  for (const cuuint64_t extent : layout.extents) {
    extents += (extents.empty() ? "" : " x ") + std::to_string(extent);
  }
  throw std::invalid_argument("cuTensorMapEncodeTiled refuses " + extents + ", stride " +
                              std::to_string(layout.strides.back()) + " bytes: error " +
                              std::to_string(static_cast<int>(result)));
}

cuuint64_t Bytes(int64_t elements, DType dtype = DType::kBFloat16) {
  return static_cast<cuuint64_t>(elements * DTypeBytes(dtype));
}

}  // namespace

TensorMap MakeTensorMap(const Boxes& boxes) {
  return Encoded(
      {.data = boxes.data,
       .extents = {static_cast<cuuint64_t>(boxes.columns), static_cast<cuuint64_t>(boxes.rows)},
       .strides = {Bytes(boxes.stride)},
       .box = {static_cast<cuuint32_t>(boxes.box_columns),
               static_cast<cuuint32_t>(boxes.box_rows)}},
      boxes.box_columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

TensorMap MakeHeadMap(const HeadBoxes& boxes) {
  return Encoded(
      {.data = boxes.data,
       .extents = {static_cast<cuuint64_t>(boxes.dim), static_cast<cuuint64_t>(boxes.heads),
                   static_cast<cuuint64_t>(boxes.tokens)},
       .strides = {Bytes(boxes.dim), Bytes(boxes.stride)},
       .box = {64, static_cast<cuuint32_t>(boxes.box_heads),
               static_cast<cuuint32_t>(boxes.box_tokens)}},
      CU_TENSOR_MAP_SWIZZLE_128B);
}

TensorMap MakeStackMap(const StackBoxes& boxes) {
  return Encoded(
      {.data = boxes.data,
       .extents = {static_cast<cuuint64_t>(boxes.columns), static_cast<cuuint64_t>(boxes.rows),
                   static_cast<cuuint64_t>(boxes.matrices)},
       .strides = {Bytes(boxes.stride, boxes.dtype), Bytes(boxes.matrix_stride, boxes.dtype)},
       .box = {static_cast<cuuint32_t>(boxes.box_row_bytes / DTypeBytes(boxes.dtype)),
               static_cast<cuuint32_t>(boxes.box_rows),
               static_cast<cuuint32_t>(boxes.box_matrices)},
       .type = boxes.dtype == DType::kFloat32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                              : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
      boxes.box_row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

}  // namespace coxswain::kernels::cuda
