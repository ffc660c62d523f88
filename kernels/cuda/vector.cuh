// Elements of either type as float, one by one or 16 bytes at a time.
#ifndef COXSWAIN_KERNELS_CUDA_VECTOR_CUH_
#define COXSWAIN_KERNELS_CUDA_VECTOR_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/dtype.h"

namespace coxswain::kernels::cuda {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(bf16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 FromFloat<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

// Elements in 16 bytes.
template <typename T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// kVector<T> elements as floats. `p` is 16-byte aligned.
template <typename T>
struct Vector {
  static constexpr int kSize = kVector<T>;
  float value[kSize];

  __device__ __forceinline__ void Load(const T* p) { Unpack(*reinterpret_cast<const uint4*>(p)); }
  // For data that is read once: does not displace what the cache holds.
  __device__ __forceinline__ void LoadStreaming(const T* p) {
    Unpack(__ldcs(reinterpret_cast<const uint4*>(p)));
  }
  __device__ __forceinline__ void Store(T* p) const { *reinterpret_cast<uint4*>(p) = Pack(); }
  __device__ __forceinline__ void StoreStreaming(T* p) const {
    __stcs(reinterpret_cast<uint4*>(p), Pack());
  }

  __device__ __forceinline__ void Unpack(const uint4& raw) {
    const T* elements = reinterpret_cast<const T*>(&raw);
#pragma unroll
    for (int i = 0; i < kSize; ++i) value[i] = ToFloat(elements[i]);
  }
  __device__ __forceinline__ uint4 Pack() const {
    uint4 raw;
    T* elements = reinterpret_cast<T*>(&raw);
#pragma unroll
    for (int i = 0; i < kSize; ++i) elements[i] = FromFloat<T>(value[i]);
    return raw;
  }
};

// Whether rows of `columns` elements that start at `p` can be read 16 bytes at a time.
template <typename T>
inline bool Aligned(const void* p, int64_t columns) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && columns % kVector<T> == 0;
}

// Calls fn with a zero of the element type of `dtype`.
template <typename Fn>
inline void ForDType(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat32) {
    fn(float{});
  } else {
    fn(bf16{});
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_VECTOR_CUH_
