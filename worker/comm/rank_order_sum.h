// Sums in rank order: ((x_0 + x_1) + x_2) + ... element by element, in float32 for bfloat16.
#ifndef COXSWAIN_WORKER_COMM_RANK_ORDER_SUM_H_
#define COXSWAIN_WORKER_COMM_RANK_ORDER_SUM_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace coxswain::comm {

struct BFloat16 {
  uint16_t bits;
  // NOLINTNEXTLINE(google-explicit-constructor) sums read it as the number it is
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// Rounds to nearest even; a NaN stays one.
inline void Store(float value, BFloat16* out) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  out->bits = static_cast<uint16_t>(rounded >> 16);
}
inline void Store(float value, float* out) { *out = value; }
inline void Store(double value, double* out) { *out = value; }

// out[i] = parts[0][i] + parts[1][i] + ..., n elements each. `out` may be one of the parts.
template <typename T>
void SumInRankOrder(const std::vector<const T*>& parts, int64_t n, T* out) {
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
  constexpr int64_t kBlock = 2048;
  Sum sums[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    for (int64_t i = 0; i < count; ++i) sums[i] = parts[0][first + i];
    for (size_t rank = 1; rank < parts.size(); ++rank) {
      const T* x = parts[rank] + first;
      for (int64_t i = 0; i < count; ++i) sums[i] += x[i];
    }
    for (int64_t i = 0; i < count; ++i) Store(sums[i], out + first + i);
  }
}

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_RANK_ORDER_SUM_H_
