// Matrix products of the C ABI on two-dimensional tensors, whose rows may lie apart.
#ifndef COXSWAIN_KERNELS_TORCH_PRODUCT_H_
#define COXSWAIN_KERNELS_TORCH_PRODUCT_H_

#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops {

struct ProductOptions {
  bool transpose_a = false, transpose_b = false;
  float beta = 0.0f;           // 1: added to what `out` holds
  optional<Tensor> bias = {};  // of every row of `out`
};
// out = op(a) op(b). Columns of each lie next to one another.
void Product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductOptions& options);

// One matrix with the rows of all, where each lies behind the one before in one piece of memory.
optional<Tensor> Joined(at::TensorList parts);

// x W^T + bias of x [T, K] and W [N, K].
Tensor Linear(const Tensor& x, const Tensor& weight, const optional<Tensor>& bias = {});
// dy^T x, the gradient of W, as a tensor of its own.
Tensor WeightGradient(const Tensor& dy, const Tensor& x);
// The sums of the columns of dy, of its type.
Tensor BiasGradient(const Tensor& dy);

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_PRODUCT_H_
