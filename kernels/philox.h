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

COXSWAIN_HOST_DEVICE inline PhiloxWords Philox(PhiloxWords c, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c.word[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c.word[2];
    c = {{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(p0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_PHILOX_H_
