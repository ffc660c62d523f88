// Vectorised inner loops that run on any x86-64: a function marked COXSWAIN_VECTORIZE is compiled
// for three instruction sets and the loader picks one. What it calls must be inlined into it.
#ifndef COXSWAIN_KERNELS_CPU_VECTORIZE_H_
#define COXSWAIN_KERNELS_CPU_VECTORIZE_H_

#include <bit>
#include <cmath>
#include <cstdint>

// Sanitizers instrument the loader's choice, which runs before they are ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COXSWAIN_VECTORIZE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COXSWAIN_VECTORIZE
#endif
#define COXSWAIN_INLINE inline __attribute__((always_inline))

namespace coxswain::kernels::cpu {

// Partial results that a reduction keeps apart, so that its order is fixed and it vectorises.
inline constexpr int64_t kLanes = 16;

// e^x, relative error below 2^-22 where the result is a normal number; 0 below, inf above, NaN
// stays. Source: Cephes expf: x = n ln 2 + r, degree-5 polynomial in r, scaled by 2^n in two
// factors.
COXSWAIN_INLINE float Exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer
  const float clamped = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const float shifted = clamped * 1.44269504088896341f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = exponent >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - half + 127) << 23);
  return (p * scale1) * scale2;
}

// k tanh(x / k); off by at most 8 k 2^-24.
COXSWAIN_INLINE float Cap(float x, float k) {
  return k * (1.0f - 2.0f / (Exp(2.0f * (x / k)) + 1.0f));
}

template <typename T>
COXSWAIN_INLINE T SumLanes(const T* lanes) {
  T width8[8];
  for (int j = 0; j < 8; ++j) width8[j] = lanes[j] + lanes[j + 8];
  for (int j = 0; j < 4; ++j) width8[j] += width8[j + 4];
  return (width8[0] + width8[2]) + (width8[1] + width8[3]);
}

// Sum over j of a[j] b[j].
COXSWAIN_INLINE float Dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] += a[i + j] * b[i + j];
  return SumLanes(lanes);
}

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_VECTORIZE_H_
