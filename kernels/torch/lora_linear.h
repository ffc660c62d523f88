// The low-rank part of an adapted linear, on its own and under DoRA.
#ifndef COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_
#define COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_

#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops {

coxswain_lora_linear_args LoraArgs(const Tensor& x, const Tensor& a, const Tensor& b,
                                   const Tensor& h, double scale);
// y += s (x A^T) B^T; h takes x A^T.
void AddLora(const Tensor& y, const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& h,
             double scale);

struct LoraGradients {
  Tensor da, db;
};
// dx, where there is one, is added to.
LoraGradients LoraBackward(const Tensor& dy, const Tensor& dx, const Tensor& x, const Tensor& a,
                           const Tensor& b, const Tensor& h, double scale);

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_LORA_LINEAR_H_
