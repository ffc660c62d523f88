// AdamW over a list of tensors in one launch. With t the number of this update (from 1), lr_j the
// group's rate and g already multiplied by the clip factor:
//   p = p (1 - lr_j wd);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p = p - lr_j/(1 - b1^t) m / (sqrt(v)/sqrt(1 - b2^t) + eps)
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019; torch.optim.AdamW.
#ifndef COXSWAIN_KERNELS_OPTIMIZER_ADAMW_H_
#define COXSWAIN_KERNELS_OPTIMIZER_ADAMW_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

// The value that is updated is `master` of a record (AdamWTensor) when there is one, and p its copy
// rounded to nearest; without, it is p itself: float32, or bfloat16 rounded stochastically: x
// becomes its bfloat16 neighbour above or below with probability by distance, from one 16-bit draw
// per element,
//   bits(bf16) = (bits(x) + r) >> 16, r = half word `element mod 8`, the low half of word 0 first,
//   of Philox(key, (element / 8 low, element / 8 high, index, step)), so that a result depends on
//   (seed, parameter, step, element) alone. NaN stays NaN.
// m and v are float32, or bfloat16: then the update is computed from them before they are rounded,
// stochastically likewise: r of m is the low half and r of v the high half of word `element mod 4`
//   of Philox(state_key, (element / 4 low, element / 4 high, index, step)).
// A moving average rounded to nearest would stand still where 1 - b of it is below half an ulp.
bool AdamWSupports(DType p_dtype, DType g_dtype, bool master);

// Device memory: the launch reads it, the host need not know its values.
struct OptimizerScalars {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  int64_t applied_updates = 0;  // before this one; AdamW adds 1 unless it skips
  double clip_factor = 1.0;
  int32_t skip = 0;  // not 0: p, m, v and applied_updates stay as they are
};

// Keys of (seed, purpose), and the step, which with them numbers the draws of stochastic rounding.
struct UpdateDraws {
  uint32_t key[2] = {0, 0};        // of weights
  uint32_t state_key[2] = {0, 0};  // of states
  const uint32_t* step = nullptr;  // one word in device memory
};

struct AdamWArgs {
  const AdamWTensor* tensors = nullptr;  // [count], device memory
  int64_t count = 0;
  int64_t chunks = 0;  // of the whole list
  OptimizerScalars* scalars = nullptr;
  DType state_dtype = DType::kFloat32;  // of m and v of every tensor
  UpdateDraws draws = {};
  bool last = true;  // of the lists of this update: applied_updates counts it
};
void AdamW(const AdamWArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_OPTIMIZER_ADAMW_H_
