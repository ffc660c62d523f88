// Philox4x32-10, compiled for host and device alike.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#ifndef COXSWAIN_KERNELS_PHILOX_H_
#define COXSWAIN_KERNELS_PHILOX_H_

#include <cstdint>

#include "kernels/host_device.h"

namespace coxswain::kernels {

struct PhiloxWords {
  uint32_t word[4];
};

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxStep0 = 0x9E3779B9u, kPhiloxStep1 = 0xBB67AE85u;

COXSWAIN_HOST_DEVICE inline PhiloxWords PhiloxRound(const PhiloxWords& c, uint32_t key0,
                                                    uint32_t key1) {
  const uint64_t p0 = uint64_t{0xD2511F53u} * c.word[0];
  const uint64_t p1 = uint64_t{0xCD9E8D57u} * c.word[2];
  return {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(p0)}};
}

COXSWAIN_HOST_DEVICE inline PhiloxWords Philox(PhiloxWords c, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    c = PhiloxRound(c, key0, key1);
    key0 += kPhiloxStep0;
    key1 += kPhiloxStep1;
  }
  return c;
}

// The keys of the rounds, which depend on nothing else: from a kernel's parameters they cost no
// instruction.
struct PhiloxKeys {
  uint32_t round[kPhiloxRounds][2];
};
inline PhiloxKeys MakePhiloxKeys(uint32_t key0, uint32_t key1) {
  PhiloxKeys keys;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    keys.round[round][0] = key0;
    keys.round[round][1] = key1;
    key0 += kPhiloxStep0;
    key1 += kPhiloxStep1;
  }
  return keys;
}
COXSWAIN_HOST_DEVICE inline PhiloxWords Philox(PhiloxWords c, const PhiloxKeys& keys) {
  for (int i = 0; i < kPhiloxRounds; ++i) {
    c = PhiloxRound(c, keys.round[i][0], keys.round[i][1]);
  }
  return c;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PHILOX_H_
