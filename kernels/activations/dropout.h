// Dropout whose mask is a pure function of what is dropped: replayed, never stored.
// Element (t, c) has the Philox word c % 4 of counter (step, site << 16 | c / 4, bin[t],
// position[t]); it is kept when u = (word >> 8) 2^-24 >= rate, and then multiplied by 1 / (1 -
// rate). Neither rank, micro-step nor thread count enters, so any split of a batch drops the same
// elements.
#ifndef COXSWAIN_KERNELS_ACTIVATIONS_DROPOUT_H_
#define COXSWAIN_KERNELS_ACTIVATIONS_DROPOUT_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct DropoutSpec {
  DType dtype = DType::kFloat32;
  int64_t columns = 0;  // K <= 262,144
  float rate = 0.0f;    // in [0, 1); 0: identity, no random number is drawn
};
bool DropoutSupports(const DropoutSpec& spec);

// What numbers the random draws of a launch.
struct DropoutMask {
  uint32_t key[2] = {0, 0};             // of (seed, purpose)
  uint32_t site = 0;                    // < 65,536; numbers the places of the model that drop
  const uint32_t* step = nullptr;       // one word in device memory
  const uint32_t* bins = nullptr;       // [T], global bin index of each token
  const uint32_t* positions = nullptr;  // [T], position in the bin (not in the document)
};

// y = mask(x) / (1 - rate). The backward is the same function of dy.
struct DropoutArgs {
  DropoutSpec spec = {};
  DropoutMask mask = {};
  int64_t rows = 0;         // T
  const void* x = nullptr;  // [T, K]
  void* y = nullptr;        // [T, K]; may be x
  bool accumulate = false;  // y += instead of y =
};
void DropoutApply(const DropoutArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ACTIVATIONS_DROPOUT_H_
