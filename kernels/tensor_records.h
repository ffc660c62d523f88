// Records that ops over lists of tensors read from device memory, one per tensor, and the chunks in
// which they walk the lists. Plain structs: the planner sizes buffers by them.
#ifndef COXSWAIN_KERNELS_TENSOR_RECORDS_H_
#define COXSWAIN_KERNELS_TENSOR_RECORDS_H_

#include <cstdint>

#include "kernels/dtype.h"

namespace coxswain::kernels {

// The lists of tensors are walked in chunks of so many elements; a tensor's last chunk is shorter.
inline constexpr int64_t kTensorChunk = 16384;
constexpr int64_t TensorChunks(int64_t elements) {
  return (elements + kTensorChunk - 1) / kTensorChunk;
}

// Of adamw.h, which says how p and master are updated.
struct AdamWTensor {
  void* p = nullptr;        // [n] of p_dtype
  float* master = nullptr;  // [n]; null: p is the master
  const void* g = nullptr;  // [n] of g_dtype
  void* m = nullptr;        // [n] of the launch's state_dtype
  void* v = nullptr;        // [n], likewise
  int64_t n = 0;
  int64_t begin = 0;          // element of the parameter that p[0] is
  int64_t first_chunk = 0;    // TensorChunks of all tensors before it in the list
  double lr_scale = 1.0;      // lr_j = lr lr_scale
  double weight_decay = 0.0;  // wd
  DType p_dtype = DType::kFloat32;
  DType g_dtype = DType::kFloat32;
  uint32_t index = 0;  // of the parameter, for stochastic rounding
};

// Elements that share a scale of 8-bit states.
inline constexpr int64_t kStateBlock = 256;
static_assert(kTensorChunk % kStateBlock == 0);
constexpr int64_t StateBlocks(int64_t elements) {
  return (elements + kStateBlock - 1) / kStateBlock;
}

// Of adamw_8bit.h. Without codes m and v are the states; with codes they are not used.
struct AdamW8bitTensor {
  AdamWTensor tensor;          // float32 states
  uint8_t* m_codes = nullptr;  // [n] of the signed map; null: not in blocks
  uint8_t* v_codes = nullptr;  // [n] of the unsigned map
  float* m_absmax = nullptr;   // [StateBlocks(n)]
  float* v_absmax = nullptr;   // [StateBlocks(n)]
};

// Of global_norm.h and whole_tensors.h.
struct NormTensor {
  const void* data = nullptr;
  int64_t elements = 0;
  int64_t first_chunk = 0;  // TensorChunks of all tensors before it in the list
  DType dtype = DType::kFloat32;
};

// Of global_norm.h.
struct NormSums {
  double sum_squares = 0.0;  // non-finite elements propagate
  double nonfinite = 0.0;    // number of elements that are infinite or NaN; double so that both
                             // numbers travel in one all-reduce
};

// Of whole_tensors.h.
struct TensorBits {
  uint64_t checksum = 0;
  uint64_t nonzero = 0;  // 1: an element differs from zero
};

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSOR_RECORDS_H_
