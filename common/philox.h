// The random numbers that training depends on: draws of the counter-based generator of
// kernels/philox.h, by seed and purpose.
#ifndef COXSWAIN_COMMON_PHILOX_H_
#define COXSWAIN_COMMON_PHILOX_H_

#include <array>
#include <cstdint>

#include "kernels/philox.h"

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
  const kernels::PhiloxWords words =
      kernels::Philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

// Key of (seed, purpose). The seed's high half is folded into the purpose word.
inline std::array<uint32_t, 2> PhiloxKey(uint64_t seed, RandomPurpose purpose) {
  return {static_cast<uint32_t>(seed),
          static_cast<uint32_t>(seed >> 32) ^ (static_cast<uint32_t>(purpose) * 0x9E3779B9u)};
}

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_PHILOX_H_
