// Attention whose forward multiplies codes in E4M3 (kernels/quantize/fp8.h), for
// AttentionSpec::fp8. The forward stores what the codes of q, k and v stand for. The backward is
// that of kernels/attention/attention.h with these as its q, k and v, and with out and lse of this
// forward: so probabilities are those of the forward, and rows of dS sum to 0. With q, k and v as
// they came, the loss of a small model ends 0.6 % higher (bench/results/README.md, FP8).
//
// Scales are powers of two: 2^e, the smallest with amax <= 448 2^e and e >= -40. So what a value
// rounds to depends on its scale only where its code is subnormal. A row of a query head has a
// scale sq. The keys of a kv head have a scale sk for each tile of 128 of a document, counted from
// its first row, and its values have sv likewise. Codes are x / scale, rounded to nearest even.
//   S = scale sq sk (codes of q) (codes of k)^T
//   over tiles of keys, in order:  m' = max(m, rowmax S);  P = exp(S - m');
//     l' = e^{m - m'} l + rowsum P;  O' = e^{m - m'} O + sv (code of 256 P) (codes of v)
//   out = O / (256 l);  lse = m + log l
// A sink joins m and l behind the last tile. Of values of independent signs the square of what out
// is off from exact attention by is 4 2^-8 / 3 of its square at most on average: a code's is
// 2^-8 / 3, and those of q, k, P and v add up (tests/kernels/attention/fp8_attention_test.cc).
// Sums are in float32. A tensor core adds up one tile at most: it cuts every product off at 13 bits
// behind the first one of its sum, which after 3,072 keys was 5 % short of its terms.
// A maximum that is no number makes its scale NaN, and all rows of out that read it; on a GPU also
// rows of the same document that share a tile of rows with them.
// Source: Shah and others, "FlashAttention-3", 2024, section 3.3, which has a scale for each block
// of q, k and v; DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2 (sums of codes).
#ifndef COXSWAIN_KERNELS_ATTENTION_FP8_ATTENTION_H_
#define COXSWAIN_KERNELS_ATTENTION_FP8_ATTENTION_H_

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace coxswain::kernels {

inline constexpr int kFp8AttentionKeys = 128;          // that share a scale
inline constexpr float kFp8ProbabilityScale = 256.0f;  // P is at most 1, a code at most 448
inline constexpr int kFp8SmallestExponent = -40;
inline constexpr int kFp8QueryHeads = 64;  // of a kv head at most, on a GPU

// Elements of a head of q and k, or of v.
constexpr bool IsFp8AttentionHead(int64_t width) {
  return width > 0 && width <= 128 && width % 16 == 0;
}

// The scale of values whose largest size has these bits of a float32.
COXSWAIN_HOST_DEVICE inline float Fp8AttentionScale(uint32_t amax) {
  constexpr uint32_t kInfinity = 0x7f800000u, kFraction = 0x007fffffu, kOf448 = 0x00600000u;
  uint32_t bits = 0x7fc00000u;  // NaN
  if (amax < kInfinity) {
    const int least = static_cast<int>(amax >> 23) - (127 + 8) + ((amax & kFraction) > kOf448);
    const int exponent = least > kFp8SmallestExponent ? least : kFp8SmallestExponent;
    bits = static_cast<uint32_t>(exponent + 127) << 23;
  }
  float scale = 0.0f;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

// Where a GPU keeps codes and scales, in bytes of its workspace; parts begin at multiples of 256.
struct Fp8AttentionParts {
  int64_t value_keys = 0;  // K: document i has keys 16 (cu_seqlens[i] / 16 + i) on of it
  int64_t tiles = 0;       // M: document i has tiles cu_seqlens[i] / 128 + i on of it
  int64_t k = 0;           // [T, nkv, hd]
  int64_t v = 0;           // [nkv, vd, K]
  int64_t k_scales = 0;    // [nkv, M] floats
  int64_t v_scales = 0;    // [nkv, M] floats
  int64_t bytes = 0;       // of all
};
constexpr Fp8AttentionParts Fp8AttentionPartsOf(int64_t kv_heads, int64_t head_dim,
                                                int64_t value_dim, int64_t tokens,
                                                int64_t documents) {
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  Fp8AttentionParts parts;
  parts.value_keys = 16 * (tokens / 16 + documents);
  parts.tiles = tokens / kFp8AttentionKeys + documents;
  parts.v = aligned(tokens * kv_heads * head_dim);
  parts.k_scales = parts.v + aligned(kv_heads * value_dim * parts.value_keys);
  parts.v_scales = parts.k_scales + aligned(4 * kv_heads * parts.tiles);
  parts.bytes = parts.v_scales + aligned(4 * kv_heads * parts.tiles);
  return parts;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ATTENTION_FP8_ATTENTION_H_
