// The largest size of the elements that a kernel stores, found beside its stores: as bits of
// integers, so that infinity is above all numbers and NaN above infinity. Two elements of bfloat16
// are compared at once. A warp raises the slot by at most one atomic, and only where what it read
// when it began is smaller: of the blocks behind the first of a multiprocessor few do. An integer
// maximum has no order: bitwise deterministic.
#ifndef COXSWAIN_KERNELS_CUDA_STORED_AMAX_CUH_
#define COXSWAIN_KERNELS_CUDA_STORED_AMAX_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// Of elements T. Not kWanted: no code.
template <typename T, bool kWanted>
class StoredAmax {
 public:
  // `slot`: a float32 >= 0; null where it is not wanted.
  __device__ __forceinline__ explicit StoredAmax(float* slot)
      : slot_(reinterpret_cast<unsigned int*>(slot)) {
    if constexpr (kWanted) seen_ = *slot_;
  }

  template <int N>
  __device__ __forceinline__ void Take(const Vector<T, N>& stored) {
    if constexpr (kWanted) {
      const auto raw = stored.Pack();
      if constexpr (sizeof(raw) < sizeof(uint32_t)) {
        TakeWord(raw);
      } else {
        const uint32_t* const words = reinterpret_cast<const uint32_t*>(&raw);
#pragma unroll
        for (int w = 0; w < static_cast<int>(sizeof(raw) / 4); ++w) TakeWord(words[w]);
      }
    }
  }
  __device__ __forceinline__ void Take(T stored) {
    if constexpr (kWanted) {
      Vector<T, 1> one;
      one.value[0] = ToFloat(stored);
      Take(one);
    }
  }

  // Every thread of the warp calls it, once.
  __device__ __forceinline__ void Raise() const {
    if constexpr (kWanted) {
      uint32_t largest = largest_;
      if constexpr (kPairs) largest = max(largest_ << 16, largest_ & 0xffff0000u);
      largest = __reduce_max_sync(~0u, largest);
      if (threadIdx.x % kWarp == 0 && largest > seen_) atomicMax(slot_, largest);
    }
  }

 private:
  static constexpr bool kPairs = std::is_same_v<T, bf16>;

  __device__ __forceinline__ void TakeWord(uint32_t word) {
    if constexpr (kPairs) {
      largest_ = __vmaxu2(largest_, word & 0x7fff7fffu);
    } else {
      largest_ = max(largest_, word & 0x7fffffffu);
    }
  }

  unsigned int* slot_;
  uint32_t seen_ = 0, largest_ = 0;  // largest_: of bfloat16, those at even and at odd places
};

// Calls fn with std::true_type where `amax` is wanted, else with std::false_type.
template <typename Fn>
inline void ForAmax(const float* amax, const Fn& fn) {
  if (amax != nullptr) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_STORED_AMAX_CUH_
