// Gate and up of a mixture's experts with SwiGLU behind them; formulas:
// kernels/experts/grouped_gated_linear.h. Saved for backward: x and gate_up. Backward is that of
// swiglu, then that of grouped_linear.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::grouped_gated_op {
namespace {

// y [R, I] and gate_up [R, 2 I].
std::tuple<Tensor, Tensor> GroupedGatedLinear(const Tensor& x_given, const Tensor& weight_given,
                                              const optional<Tensor>& bias, const Tensor& offsets) {
  const Tensor x = x_given.contiguous(), weight = weight_given.contiguous();
  RequireDims(x, 2, "x");
  RequireDims(weight, 3, "weight");
  TORCH_CHECK_VALUE(weight.size(1) % 2 == 0, "coxswain: weight has ", weight.size(1),
                    " rows an expert, must be twice a width");
  coxswain_grouped_gated_linear_args args = {};
  args.dtype = Type(x, "x");
  args.rows = x.size(0);
  args.experts = weight.size(0);
  args.in_features = weight.size(2);
  args.intermediate = weight.size(1) / 2;
  RequireSize(x, args.rows * args.in_features, "x");
  RequireSize(offsets, args.experts + 1, "offsets");
  if (bias.has_value()) {
    RequireSize(*bias, args.experts * weight.size(1), "bias");
    args.bias = Address(*bias, x, "bias");
  }
  Tensor y = EmptyColumns(x, args.intermediate), gate_up = EmptyColumns(x, weight.size(1));
  args.offsets = Ints(offsets, x, "offsets");
  args.x = x.data_ptr();
  args.weight = Address(weight, x, "weight");
  args.gate_up = gate_up.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(grouped_gated_linear_forward, args, x);
  return {y, gate_up};
}

Tensor SwigluGradient(const Tensor& dy, const Tensor& gate_up) {
  static const auto op = OpNamed<Tensor(const Tensor&, const Tensor&)>("coxswain::swiglu_backward");
  return op.call(dy, gate_up);
}

using LinearGradients = std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&,
                                                           const Tensor&, const Tensor&, bool, bool,
                                                           bool);

class GroupedGatedFunction : public torch::autograd::Function<GroupedGatedFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const optional<Tensor>& bias, const Tensor& offsets) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, gate_up] =
        COXSWAIN_OP("grouped_gated_linear", GroupedGatedLinear).call(x, weight, bias, offsets);
    ctx->save_for_backward({x, weight, offsets, gate_up});
    ctx->saved_data["x"] = x.requires_grad();
    ctx->saved_data["weight"] = weight.requires_grad();
    ctx->saved_data["bias"] = bias.has_value() && bias->requires_grad();
    OnlyValues(ctx, {gate_up});
    return {y, gate_up};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(4);
    const variable_list saved = ctx->get_saved_variables();
    const bool x = ctx->saved_data["x"].toBool(), weight = ctx->saved_data["weight"].toBool();
    const bool bias = ctx->saved_data["bias"].toBool();
    static const auto op = OpNamed<LinearGradients>("coxswain::grouped_linear_backward");
    const auto [dx, dweight, dbias] = op.call(SwigluGradient(gradients[0], saved[3]), saved[0],
                                              saved[1], saved[2], x, weight, bias);
    return {Asked(dx, x), Asked(dweight, weight), Asked(dbias, bias), Tensor()};
  }
};

std::tuple<Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight,
                                          const optional<Tensor>& bias, const Tensor& offsets) {
  const variable_list out = GroupedGatedFunction::apply(x, weight, bias, offsets);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                    const optional<Tensor>& bias, const Tensor& offsets) {
  const WithoutAutocast without;
  return COXSWAIN_OP("grouped_gated_linear", GroupedGatedLinear)
      .call(Lowered(x), Lowered(weight), Lowered(bias), offsets);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "grouped_gated_linear(Tensor x, Tensor weight, Tensor? bias, Tensor offsets) -> (Tensor, "
      "Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) {
  library.impl("grouped_gated_linear", GroupedGatedLinear);
}
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) {
  library.impl("grouped_gated_linear", GroupedGatedLinear);
}
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("grouped_gated_linear", Differentiable);
}
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) {
  library.impl("grouped_gated_linear", Autocast);
}

}  // namespace coxswain::kernels::torch_ops::grouped_gated_op
