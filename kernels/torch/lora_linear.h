// An adapted linear, on its own and under DoRA.
#ifndef COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_
#define COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_

#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops {

struct LoraOperands {
  Tensor x, weight, a, b;  // [T, K], [N, K], [r, K], [N, r]
  double scale;
};
// x W^T + bias + h B^T; h takes s x A^T.
Tensor LoraForward(const LoraOperands& operands, const optional<Tensor>& bias, const Tensor& h);

struct LoraGradients {
  Tensor da, db;
};
// dx, where there is one, is overwritten.
LoraGradients LoraBackward(const LoraOperands& operands, const Tensor& dy, const Tensor& dx,
                           const Tensor& h);

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_
