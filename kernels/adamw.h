// AdamW over a list of tensors in one launch. With t the number of this update (from 1), lr_j the
// group's rate and g already multiplied by the clip factor:
//   p = p (1 - lr_j wd);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p = p - lr_j/(1 - b1^t) m / (sqrt(v)/sqrt(1 - b2^t) + eps)
// Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019; torch.optim.AdamW.
#ifndef COXSWAIN_KERNELS_ADAMW_H_
#define COXSWAIN_KERNELS_ADAMW_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {

struct AdamWSpec {
  DType dtype = DType::kFloat32;       // p; moments are float32
  DType grad_dtype = DType::kFloat32;  // g
};
bool AdamWSupports(const AdamWSpec& spec);

struct AdamWTensor {
  void* p = nullptr;        // [n]
  const void* g = nullptr;  // [n]
  float* m = nullptr;       // [n]
  float* v = nullptr;       // [n]
  int64_t n = 0;
  double lr_scale = 1.0;      // lr_j = lr lr_scale
  double weight_decay = 0.0;  // wd
};

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

struct AdamWArgs {
  AdamWSpec spec = {};
  const AdamWTensor* tensors = nullptr;  // [count], device memory
  int64_t count = 0;
  OptimizerScalars* scalars = nullptr;
};
void AdamW(const AdamWArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_ADAMW_H_
