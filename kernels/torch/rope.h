#ifndef COXSWAIN_KERNELS_TORCH_ROPE_H_
#define COXSWAIN_KERNELS_TORCH_ROPE_H_

#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops {

struct Rotation {
  Tensor cos, sin;   // float32 [positions, r / 2]
  Tensor positions;  // int32 [T]
  int64_t num_heads = 0, num_kv_heads = 0;
  bool interleaved = false;
};
// The q and k heads of qkv [T, (nq + 2 nkv) hd]; backward: by the opposite angle.
void RotateInPlace(const Tensor& qkv, const Rotation& rotation, bool backward);

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_ROPE_H_
