// Initial values of a tensor from counters, the same whatever fills them.
//   element i: word i mod 4 of Philox(key, (i/4 low, i/4 high, counter[0], counter[1]))
//   uniform: bound (2 u - 1), u = (word >> 8) 2^-24
//   normal: deviation sqrt(-2 ln(1 - u1)) (cos, sin)(2 pi u2) of the word pairs (0, 1) and (2, 3)
// Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
#ifndef COXSWAIN_KERNELS_TENSORS_RANDOM_FILL_H_
#define COXSWAIN_KERNELS_TENSORS_RANDOM_FILL_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

enum class RandomFillKind : uint8_t { kConstant, kUniform, kNormal };

struct RandomFillArgs {
  DType dtype = DType::kFloat32;
  RandomFillKind kind = RandomFillKind::kConstant;
  double value = 0.0;  // the constant, the bound, or the standard deviation
  uint32_t key[2] = {0, 0};
  uint32_t counter[2] = {0, 0};
  int64_t first = 0;  // element that out[0] is
  int64_t count = 0;
  void* out = nullptr;  // [count]; computed in double, rounded to float32, then to dtype
};
void RandomFill(const RandomFillArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_RANDOM_FILL_H_
