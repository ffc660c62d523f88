// The frozen linears of a mixture's experts with an adapter each,
// y_i = W_e x_i + bias_e + s B_e A_e x_i; formulas: kernels/experts/grouped_linear.h,
// grouped_lora.h. Saved for backward: x and A_e x_i.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::grouped_lora_op {
namespace {

struct Operands {
  Tensor x, weight, offsets, a, b;  // [R, K], [E, N, K], [E + 1], [E, r, K], [E, N, r]
  double scale;
};

void RequireShapes(const Operands& o) {
  RequireDims(o.x, 2, "x");
  RequireDims(o.weight, 3, "weight");
  RequireDims(o.a, 3, "a");
  RequireDims(o.b, 3, "b");
  const int64_t experts = o.weight.size(0), out = o.weight.size(1), in = o.weight.size(2);
  TORCH_CHECK_VALUE(o.a.size(0) == experts && o.b.size(0) == experts && o.b.size(1) == out &&
                        o.a.size(2) == in && o.a.size(1) == o.b.size(2) && o.x.size(1) == in,
                    "coxswain: weight is ", o.weight.sizes(), ", a ", o.a.sizes(), ", b ",
                    o.b.sizes(), ", x has ", o.x.size(1), " columns");
  RequireSize(o.offsets, experts + 1, "offsets");
}

coxswain_grouped_linear_args LinearArgs(const Operands& o) {
  coxswain_grouped_linear_args args = {};
  args.dtype = Type(o.x, "x");
  args.rows = o.x.size(0);
  args.experts = o.weight.size(0);
  args.out_features = o.weight.size(1);
  args.in_features = o.weight.size(2);
  args.offsets = Ints(o.offsets, o.x, "offsets");
  args.weight = Address(o.weight, o.x, "weight");
  return args;
}

coxswain_grouped_lora_args LoraArgs(const Operands& o, const Tensor& h) {
  coxswain_grouped_lora_args args = {};
  args.dtype = Type(o.x, "x");
  args.rows = o.x.size(0);
  args.experts = o.weight.size(0);
  args.out_features = o.weight.size(1);
  args.in_features = o.weight.size(2);
  args.rank = o.a.size(1);
  args.scale = static_cast<float>(o.scale);
  args.offsets = Ints(o.offsets, o.x, "offsets");
  args.x = o.x.data_ptr();
  args.a = Address(o.a, o.x, "a");
  args.b = Address(o.b, o.x, "b");
  args.h = Address(h, o.x, "h");
  return args;
}

Operands Contiguous(const Tensor& x, const Tensor& weight, const Tensor& offsets, const Tensor& a,
                    const Tensor& b, double scale) {
  const Operands operands = {x.contiguous(), weight.contiguous(), offsets,
                             a.contiguous(), b.contiguous(),      scale};
  RequireShapes(operands);
  return operands;
}

std::tuple<Tensor, Tensor> GroupedLoraLinear(const Tensor& x, const Tensor& weight,
                                             const optional<Tensor>& bias, const Tensor& offsets,
                                             const Tensor& a, const Tensor& b, double scale) {
  const Operands o = Contiguous(x, weight, offsets, a, b, scale);
  Tensor y = EmptyTensor({o.x.size(0), o.weight.size(1)}, o.x);
  Tensor h = EmptyTensor({o.x.size(0), o.a.size(1)}, o.x);
  coxswain_grouped_linear_args linear = LinearArgs(o);
  if (bias.has_value()) {
    RequireSize(*bias, linear.experts * linear.out_features, "bias");
    linear.bias = Address(*bias, o.x, "bias");
  }
  linear.x = o.x.data_ptr();
  linear.y = y.data_ptr();
  COXSWAIN_LAUNCH(grouped_linear_forward, linear, o.x);
  coxswain_grouped_lora_args adapter = LoraArgs(o, h);
  adapter.y = y.data_ptr();
  COXSWAIN_LAUNCH(grouped_lora_forward, adapter, o.x);
  return {y, h};
}

std::tuple<Tensor, Tensor, Tensor> GroupedLoraLinearBackward(const Tensor& dy_given,
                                                             const Tensor& x, const Tensor& weight,
                                                             const Tensor& offsets, const Tensor& a,
                                                             const Tensor& b, const Tensor& h,
                                                             double scale, bool wants_x) {
  const Operands o = Contiguous(x, weight, offsets, a, b, scale);
  const Tensor dy = dy_given.contiguous();
  RequireSize(dy, o.x.size(0) * o.weight.size(1), "dy");
  Tensor dx = wants_x ? EmptyLike(o.x) : None(o.x);
  if (wants_x) {
    coxswain_grouped_linear_args linear = LinearArgs(o);
    linear.dy = Address(dy, o.x, "dy");
    linear.dx = dx.data_ptr();
    COXSWAIN_LAUNCH(grouped_linear_input_gradient, linear, o.x);
  }
  const Tensor da = ZeroFloats(o.a.sizes(), o.x), db = ZeroFloats(o.b.sizes(), o.x);
  coxswain_grouped_lora_args adapter = LoraArgs(o, h);
  adapter.dy = Address(dy, o.x, "dy");
  adapter.da = da.data_ptr();
  adapter.db = db.data_ptr();
  adapter.dx = wants_x ? dx.data_ptr() : nullptr;
  COXSWAIN_LAUNCH_LENT(grouped_lora_backward, adapter, o.x);
  return {dx, da.to(a.scalar_type()), db.to(b.scalar_type())};
}

class GroupedLoraFunction : public torch::autograd::Function<GroupedLoraFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const optional<Tensor>& bias, const Tensor& offsets, const Tensor& a,
                               const Tensor& b, double scale) {
    TORCH_CHECK_VALUE(!weight.requires_grad() && !OrNone(bias).requires_grad(),
                      "coxswain: grouped_lora_linear has no gradient of its weight and bias");
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, h] = COXSWAIN_OP("grouped_lora_linear", GroupedLoraLinear)
                            .call(x, weight, bias, offsets, a, b, scale);
    ctx->save_for_backward({x, weight, offsets, a, b, h});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["x"] = x.requires_grad();
    OnlyValues(ctx, {h});
    return {y, h};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(7);
    const variable_list saved = ctx->get_saved_variables();
    const bool x = ctx->saved_data["x"].toBool();
    const auto [dx, da, db] = COXSWAIN_OP("grouped_lora_linear_backward", GroupedLoraLinearBackward)
                                  .call(gradients[0], saved[0], saved[1], saved[2], saved[3],
                                        saved[4], saved[5], ctx->saved_data["scale"].toDouble(), x);
    return {Asked(dx, x), Tensor(), Tensor(), Tensor(), da, db, Tensor()};
  }
};

std::tuple<Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight,
                                          const optional<Tensor>& bias, const Tensor& offsets,
                                          const Tensor& a, const Tensor& b, double scale) {
  const variable_list out = GroupedLoraFunction::apply(x, weight, bias, offsets, a, b, scale);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                    const optional<Tensor>& bias, const Tensor& offsets,
                                    const Tensor& a, const Tensor& b, double scale) {
  const WithoutAutocast without;
  return COXSWAIN_OP("grouped_lora_linear", GroupedLoraLinear)
      .call(Lowered(x), Lowered(weight), Lowered(bias), offsets, Lowered(a), Lowered(b), scale);
}

void Kernels(torch::Library& library) {
  library.impl("grouped_lora_linear", GroupedLoraLinear);
  library.impl("grouped_lora_linear_backward", GroupedLoraLinearBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "grouped_lora_linear(Tensor x, Tensor weight, Tensor? bias, Tensor offsets, Tensor a, Tensor "
      "b, float scale) -> (Tensor, Tensor)");
  library.def(
      "grouped_lora_linear_backward(Tensor dy, Tensor x, Tensor weight, Tensor offsets, Tensor a, "
      "Tensor b, Tensor h, float scale, bool wants_x) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("grouped_lora_linear", Differentiable);
}
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) {
  library.impl("grouped_lora_linear", Autocast);
}

}  // namespace coxswain::kernels::torch_ops::grouped_lora_op
