// Philox4x32-10, the counter-based generator behind every random number that training depends on.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#ifndef COXSWAIN_COMMON_PHILOX_H_
#define COXSWAIN_COMMON_PHILOX_H_

#include <array>
#include <cstdint>

namespace coxswain {

// Purpose of a draw: the second half of the key, so that draws for different things never coincide.
enum class RandomPurpose : uint32_t {
  kShuffle = 1,
  kWeightCopies = 2,
  kAdapterInit = 3,
  kWeightInit = 4,
  kDropout = 5,
  kValSplit = 6,
  kStochasticRounding = 7,
  kStateRounding = 8,
  kSampling = 9,
  kGradientRounding = 10,
};

inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  constexpr uint64_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMul0 * counter[0], p1 = kMul1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// Key of (seed, purpose). The seed's high half is folded into the purpose word.
inline std::array<uint32_t, 2> PhiloxKey(uint64_t seed, RandomPurpose purpose) {
  return {static_cast<uint32_t>(seed),
          static_cast<uint32_t>(seed >> 32) ^ (static_cast<uint32_t>(purpose) * 0x9E3779B9u)};
}

// Uniform in [0, 1), 24 bits.
inline float PhiloxUniform(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_PHILOX_H_
