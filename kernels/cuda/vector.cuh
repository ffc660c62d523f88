// Elements of either type as float, one by one or 16 bytes at a time.
#ifndef COXSWAIN_KERNELS_CUDA_VECTOR_CUH_
#define COXSWAIN_KERNELS_CUDA_VECTOR_CUH_

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/dtype.h"

namespace coxswain::kernels::cuda {

using bf16 = __nv_bfloat16;
inline constexpr int kBf16Bytes = sizeof(bf16);

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

template <int kBytes>
struct RawBytes;
template <>
struct RawBytes<16> {
  using Type = uint4;
};
template <>
struct RawBytes<8> {
  using Type = uint2;
};
template <>
struct RawBytes<4> {
  using Type = unsigned int;
};
template <>
struct RawBytes<2> {
  using Type = unsigned short;
};

// N elements as floats. `p` is aligned to all of them. Vector<T, 1> is the scalar path of a kernel
// written over vectors.
template <typename T, int N = kVector<T>>
struct Vector {
  using Element = T;
  // The bytes of the elements: several are fetched before the first is unpacked, so that their
  // loads are in flight together.
  using Raw = typename RawBytes<N* static_cast<int>(sizeof(T))>::Type;
  static constexpr int kSize = N;
  float value[N];

  static __device__ __forceinline__ Raw Fetch(const T* p) {
    return *reinterpret_cast<const Raw*>(p);
  }
  // For data that is read once: does not displace what the cache holds.
  static __device__ __forceinline__ Raw FetchStreaming(const T* p) {
    return __ldcs(reinterpret_cast<const Raw*>(p));
  }
  __device__ __forceinline__ void Load(const T* p) { Unpack(Fetch(p)); }
  __device__ __forceinline__ void LoadStreaming(const T* p) { Unpack(FetchStreaming(p)); }
  __device__ __forceinline__ void Store(T* p) const { *reinterpret_cast<Raw*>(p) = Pack(); }
  __device__ __forceinline__ void StoreStreaming(T* p) const {
    __stcs(reinterpret_cast<Raw*>(p), Pack());
  }

  __device__ __forceinline__ void Unpack(const Raw& raw) {
    if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {  // one instruction for each of a pair
      const uint32_t* pairs = reinterpret_cast<const uint32_t*>(&raw);
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        value[i] = __uint_as_float(pairs[i / 2] << 16);
        value[i + 1] = __uint_as_float(pairs[i / 2] & 0xffff0000u);
      }
    } else {
      const T* elements = reinterpret_cast<const T*>(&raw);
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] = ToFloat(elements[i]);
    }
  }
  __device__ __forceinline__ Raw Pack() const {
    Raw raw;
    if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {  // one instruction rounds a pair
      __nv_bfloat162* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
#pragma unroll
      for (int i = 0; i < N; i += 2) pairs[i / 2] = __floats2bfloat162_rn(value[i], value[i + 1]);
    } else {
      T* elements = reinterpret_cast<T*>(&raw);
#pragma unroll
      for (int i = 0; i < N; ++i) elements[i] = FromFloat<T>(value[i]);
    }
    return raw;
  }
};

// Whether rows of `columns` elements that start at `p` can be read 16 bytes at a time.
template <typename T>
inline bool Aligned(const void* p, int64_t columns) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0 && columns % kVector<T> == 0;
}

// The same of rows at each of `data`.
template <typename T>
inline bool AllAligned(std::initializer_list<const void*> data, int64_t columns) {
  return std::all_of(data.begin(), data.end(),
                     [&](const void* p) { return Aligned<T>(p, columns); });
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

// Calls fn with a Vector<T>, or with a Vector<T, 1> where the data is not aligned.
template <typename T, typename Fn>
inline void ForVector(bool aligned, const Fn& fn) {
  if (aligned) {
    fn(Vector<T>{});
  } else {
    fn(Vector<T, 1>{});
  }
}

// Both: calls fn with the vector by which rows of `columns` elements of `dtype` at each of `data`
// are read. Null: aligned.
template <typename Fn>
inline void ForVectorOf(DType dtype, int64_t columns, std::initializer_list<const void*> data,
                        const Fn& fn) {
  ForDType(dtype, [&](auto zero) {
    using T = decltype(zero);
    ForVector<T>(AllAligned<T>(data, columns), fn);
  });
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_VECTOR_CUH_
