// LayerNorm; formulas: kernels/norms/norms.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::layer_norm_op {
namespace {

std::tuple<Tensor, Tensor, Tensor> LayerNorm(const Tensor& x_given, const Tensor& weight,
                                             const optional<Tensor>& bias, double eps) {
  const Tensor x = x_given.contiguous();
  RequireSize(weight, x.size(-1), "weight");
  Tensor y = EmptyLike(x), mean = EmptyFloats({Rows(x)}, x), rstd = EmptyFloats({Rows(x)}, x);
  coxswain_layer_norm_args args = {};
  args.dtype = Type(x, "x");
  args.rows = Rows(x);
  args.hidden = x.size(-1);
  args.eps = static_cast<float>(eps);
  args.x = x.data_ptr();
  args.weight = Address(weight, x, "weight");
  if (bias.has_value()) {
    RequireSize(*bias, x.size(-1), "bias");
    args.bias = Address(*bias, x, "bias");
  }
  args.y = y.data_ptr();
  args.mean = mean.data_ptr<float>();
  args.rstd = rstd.data_ptr<float>();
  COXSWAIN_LAUNCH(layer_norm_forward, args, x);
  return {y, mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> LayerNormBackward(const Tensor& dy_given, const Tensor& x,
                                                     const Tensor& weight, const Tensor& mean,
                                                     const Tensor& rstd, bool wants_weight,
                                                     bool wants_bias) {
  const Tensor dy = dy_given.contiguous();
  Tensor dx = EmptyLike(x);
  Tensor dweight = wants_weight ? ZeroFloats(weight.sizes(), x) : None(weight);
  Tensor dbias = wants_bias ? ZeroFloats(weight.sizes(), x) : None(weight);
  coxswain_layer_norm_args args = {};
  args.dtype = Type(x, "x");
  args.rows = Rows(x);
  args.hidden = x.size(-1);
  args.x = Address(x, x, "x");
  args.weight = Address(weight, x, "weight");
  args.mean = Floats(mean, x, "mean");
  args.rstd = Floats(rstd, x, "rstd");
  args.dy = Address(dy, x, "dy");
  args.dx = dx.data_ptr();
  args.dweight = wants_weight ? dweight.data_ptr() : nullptr;
  args.dbias = wants_bias ? dbias.data_ptr() : nullptr;
  COXSWAIN_LAUNCH_LENT(layer_norm_backward, args, x);
  return {dx, dweight.to(weight.scalar_type()), dbias.to(weight.scalar_type())};
}

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const optional<Tensor>& bias, double eps) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, mean, rstd] = COXSWAIN_OP("layer_norm", LayerNorm).call(x, weight, bias, eps);
    ctx->save_for_backward({x.contiguous(), weight, mean, rstd});
    ctx->saved_data["wants_weight"] = weight.requires_grad();
    ctx->saved_data["wants_bias"] = bias.has_value() && bias->requires_grad();
    OnlyValues(ctx, {mean, rstd});
    return {y, mean, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(4);
    const variable_list saved = ctx->get_saved_variables();
    const bool wants_weight = ctx->saved_data["wants_weight"].toBool();
    const bool wants_bias = ctx->saved_data["wants_bias"].toBool();
    const auto [dx, dweight, dbias] =
        COXSWAIN_OP("layer_norm_backward", LayerNormBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], saved[3], wants_weight, wants_bias);
    return {dx, Asked(dweight, wants_weight), Asked(dbias, wants_bias), Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight,
                                                  const optional<Tensor>& bias, double eps) {
  const variable_list out = LayerNormFunction::apply(x, weight, bias, eps);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                            const optional<Tensor>& bias, double eps) {
  const WithoutAutocast without;
  const at::ScalarType type = Widest({x, weight, OrNone(bias)});
  return COXSWAIN_OP("layer_norm", LayerNorm)
      .call(x.to(type), weight.to(type), bias.has_value() ? optional<Tensor>(bias->to(type)) : bias,
            eps);
}

void Kernels(torch::Library& library) {
  library.impl("layer_norm", LayerNorm);
  library.impl("layer_norm_backward", LayerNormBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "layer_norm(Tensor x, Tensor weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)");
  library.def(
      "layer_norm_backward(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd, bool "
      "wants_weight, bool wants_bias) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("layer_norm", Differentiable); }
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) { library.impl("layer_norm", Autocast); }

}  // namespace coxswain::kernels::torch_ops::layer_norm_op
