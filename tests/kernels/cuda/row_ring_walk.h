// Rows through the ring of the norms' backward, and out again as they were handed over.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_ROW_RING_WALK_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_ROW_RING_WALK_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

struct RowRingWalk {
  int64_t rows = 0;
  int64_t vectors = 0;  // of 16 bytes in a row, at most 2048
  int tensors = 2;      // up to 3
  int stages = 1;       // of the ring, 1 or 2
  int64_t blocks = 1;
  const float* in = nullptr;  // [tensors, rows, vectors, 4] on the device
  // [tensors, rows, RowRingSlots(vectors), 4] on the device: what the threads that own a row read
  // in it, past its end too.
  float* out = nullptr;
};

// Vectors that the threads which own a row have room for.
int64_t RowRingSlots(int64_t vectors);

// Throws DeviceError when the launch is refused.
void WalkRowRing(const RowRingWalk& walk, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_ROW_RING_WALK_H_
