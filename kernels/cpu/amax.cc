#include "kernels/cpu/amax.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {

COXSWAIN_VECTORIZE uint32_t LargestBits(const float* x, int64_t n) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return largest;
}

// A maximum has no order, so that the threads may come in any.
void RaiseAmax(const float* stored, int64_t n, float* amax) {
  if (amax == nullptr) return;
  const uint32_t largest = LargestBits(stored, n);
  const std::atomic_ref<float> slot(*amax);
  float seen = slot.load(std::memory_order_relaxed);
  while (
      (std::bit_cast<uint32_t>(seen) & 0x7fffffffu) < largest &&
      !slot.compare_exchange_weak(seen, std::bit_cast<float>(largest), std::memory_order_relaxed)) {
  }
}

}  // namespace coxswain::kernels::cpu
