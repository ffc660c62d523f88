// Rotation of packed q and k heads; formulas: kernels/rope.h.
#include "kernels/torch/rope.h"

#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops {

void RotateInPlace(const Tensor& qkv, const Rotation& rotation, bool backward) {
  RequireDims(qkv, 2, "qkv");
  RequireDims(rotation.cos, 2, "cos");
  RequireSize(rotation.sin, rotation.cos.numel(), "sin");
  RequireSize(rotation.positions, qkv.size(0), "positions");
  const int64_t heads = rotation.num_heads + 2 * rotation.num_kv_heads;
  TORCH_CHECK_VALUE(heads > 0 && qkv.size(1) % heads == 0, "coxswain: rows of ", qkv.size(1),
                    " are not of ", heads, " heads");
  coxswain_rope_args args = {};
  args.dtype = Type(qkv, "qkv");
  args.interleaved = rotation.interleaved;
  args.num_heads = rotation.num_heads;
  args.num_kv_heads = rotation.num_kv_heads;
  args.head_dim = qkv.size(1) / heads;
  args.rotated = 2 * rotation.cos.size(1);
  args.tokens = qkv.size(0);
  args.qkv = Address(qkv, qkv, "qkv");
  args.cos = Floats(rotation.cos, qkv, "cos");
  args.sin = Floats(rotation.sin, qkv, "sin");
  args.positions = Ints(rotation.positions, qkv, "positions");
  if (backward) {
    COXSWAIN_LAUNCH(rope_backward, args, qkv);
  } else {
    COXSWAIN_LAUNCH(rope_forward, args, qkv);
  }
}

namespace rope_op {
namespace {

Tensor Rope(const Tensor& qkv, const Tensor& cos, const Tensor& sin, const Tensor& positions,
            int64_t num_heads, int64_t num_kv_heads, bool interleaved) {
  Tensor out = Copy(qkv);
  RotateInPlace(out, {cos, sin, positions, num_heads, num_kv_heads, interleaved}, false);
  return out;
}

Tensor RopeBackward(const Tensor& dout, const Tensor& cos, const Tensor& sin,
                    const Tensor& positions, int64_t num_heads, int64_t num_kv_heads,
                    bool interleaved) {
  Tensor gradient = Copy(dout);
  RotateInPlace(gradient, {cos, sin, positions, num_heads, num_kv_heads, interleaved}, true);
  return gradient;
}

class RopeFunction : public torch::autograd::Function<RopeFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& cos,
                        const Tensor& sin, const Tensor& positions, int64_t num_heads,
                        int64_t num_kv_heads, bool interleaved) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({cos, sin, positions});
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["num_kv_heads"] = num_kv_heads;
    ctx->saved_data["interleaved"] = interleaved;
    return COXSWAIN_OP("rope", Rope)
        .call(qkv, cos, sin, positions, num_heads, num_kv_heads, interleaved);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    Tensor gradient =
        COXSWAIN_OP("rope_backward", RopeBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], ctx->saved_data["num_heads"].toInt(),
                  ctx->saved_data["num_kv_heads"].toInt(), ctx->saved_data["interleaved"].toBool());
    return {gradient, Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor Differentiable(const Tensor& qkv, const Tensor& cos, const Tensor& sin,
                      const Tensor& positions, int64_t num_heads, int64_t num_kv_heads,
                      bool interleaved) {
  return RopeFunction::apply(qkv, cos, sin, positions, num_heads, num_kv_heads, interleaved);
}

void Kernels(torch::Library& library) {
  library.impl("rope", Rope);
  library.impl("rope_backward", RopeBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "rope(Tensor qkv, Tensor cos, Tensor sin, Tensor positions, int num_heads, int num_kv_heads, "
      "bool interleaved) -> Tensor");
  library.def(
      "rope_backward(Tensor dout, Tensor cos, Tensor sin, Tensor positions, int num_heads, int "
      "num_kv_heads, bool interleaved) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("rope", Differentiable); }

}  // namespace rope_op
}  // namespace coxswain::kernels::torch_ops
