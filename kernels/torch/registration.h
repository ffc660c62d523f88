// How an op of this folder is made known to torch. Its file has the kernel, one for both devices; a
// torch::autograd::Function over it, so that backward is an op as well; and autocast's rule.
#ifndef COXSWAIN_KERNELS_TORCH_REGISTRATION_H_
#define COXSWAIN_KERNELS_TORCH_REGISTRATION_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/torch/launch.h"
#include "kernels/torch/versions.h"

namespace coxswain::kernels::torch_ops {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The op of that name, called through the dispatcher: torch.compile sees it.
template <typename Signature>
c10::TypedOperatorHandle<Signature> OpNamed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>();
}
// Of the type of the kernel.
#define COXSWAIN_OP(name, kernel)                                                            \
  ([]() -> const auto& {                                                                     \
    static const auto op =                                                                   \
        ::coxswain::kernels::torch_ops::OpNamed<std::remove_pointer_t<decltype(&(kernel))>>( \
            "coxswain::" name);                                                              \
    return op;                                                                               \
  }())

// A tensor that may be absent, for save_for_backward.
inline Tensor OrNone(const optional<Tensor>& tensor) {
  return tensor.has_value() ? *tensor : Tensor();
}
inline optional<Tensor> Present(const Tensor& tensor) {
  return tensor.defined() ? optional<Tensor>(tensor) : optional<Tensor>();
}
// Results that have no gradient. Without the second call torch would make zeros for theirs in every
// backward, as large as the results; with it a gradient that never came is an undefined tensor.
inline void OnlyValues(AutogradContext* ctx, const variable_list& results) {
  ctx->mark_non_differentiable(results);
  ctx->set_materialize_grads(false);
}
// A gradient as the backward ops give it: no elements where it was not asked for.
inline Tensor Asked(const Tensor& gradient, bool asked) { return asked ? gradient : Tensor(); }

// Autocast on a GPU: products take its type; norms the widest type among their tensors, as torch's
// layer_norm does. The kernels sum in float32 whatever they read.
class WithoutAutocast {
 private:
  c10::impl::ExcludeDispatchKeyGuard guard_{c10::DispatchKey::AutocastCUDA};
};
inline Tensor Lowered(const Tensor& tensor) {
  return at::autocast::cached_cast(AutocastType(), tensor, c10::DeviceType::CUDA);
}
inline optional<Tensor> Lowered(const optional<Tensor>& tensor) {
  return tensor.has_value() ? optional<Tensor>(Lowered(*tensor)) : tensor;
}
inline at::ScalarType Widest(std::initializer_list<Tensor> tensors) {
  at::ScalarType widest = at::kBFloat16;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.scalar_type() != at::kBFloat16) widest = at::kFloat;
  }
  return widest;
}

}  // namespace coxswain::kernels::torch_ops

#endif  // COXSWAIN_KERNELS_TORCH_REGISTRATION_H_
