// AdamW (adamw.h) with states of 8 bits: blocks of 256 elements, each state as codes of a dynamic
// map (dynamic_map.h; m signed, v unsigned) beside the block's largest absolute value in float32.
//   m = absmax map[code] before, p is updated from the new m and v before they are stored, then
//   absmax = max |m| of the block and code that of the value nearest to m / absmax.
// 0 in codes and absmax is the state 0. An absmax below 1e-38 counts as 1e-38 when dividing by it.
// Tensors that have no codes (AdamW8bitTensor) keep float32 states.
// Source: Dettmers et al., "8-bit Optimizers via Block-wise Quantization", 2022; bitsandbytes 0.50,
// kOptimizerStatic8bit2StateBlockwise, whose decay follows the update (lr^2 wd apart).
#ifndef COXSWAIN_KERNELS_OPTIMIZER_ADAMW_8BIT_H_
#define COXSWAIN_KERNELS_OPTIMIZER_ADAMW_8BIT_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

// Values and gradients as AdamW takes them. A tensor with codes begins at a block of its parameter:
// `begin` is a multiple of kStateBlock, and so is n unless the parameter ends there.
struct AdamW8bitArgs {
  const AdamW8bitTensor* tensors = nullptr;  // [count], device memory
  int64_t count = 0;
  int64_t chunks = 0;  // of the whole list, as AdamW counts them
  OptimizerScalars* scalars = nullptr;
  UpdateDraws draws = {};
  bool last = true;
};
void AdamW8bit(const AdamW8bitArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_OPTIMIZER_ADAMW_8BIT_H_
