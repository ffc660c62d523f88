// A frozen linear with a low-rank adapter, y = x W^T + bias + s (x A^T) B^T; formulas:
// kernels/lora/lora_linear.h. Saved for backward: x and s x A^T.
#include "kernels/torch/lora_linear.h"

#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops {
namespace {

coxswain_lora_linear_args ArgsOf(const LoraOperands& o, const Tensor& h) {
  RequireDims(o.weight, 2, "weight");
  RequireDims(o.a, 2, "a");
  RequireDims(o.b, 2, "b");
  TORCH_CHECK_VALUE(o.a.size(0) == o.b.size(1) && o.a.size(1) == o.x.size(1), "coxswain: a is ",
                    o.a.sizes(), ", b ", o.b.sizes(), ", x has ", o.x.size(1), " columns");
  TORCH_CHECK_VALUE(o.weight.size(0) == o.b.size(0) && o.weight.size(1) == o.x.size(1),
                    "coxswain: weight is ", o.weight.sizes(), ", b ", o.b.sizes(), ", x has ",
                    o.x.size(1), " columns");
  coxswain_lora_linear_args args = {};
  args.dtype = Type(o.x, "x");
  args.members = 1;
  args.in_features = o.x.size(1);
  args.rank = o.a.size(0);
  args.out_features[0] = args.ldy = o.b.size(0);
  args.scale = static_cast<float>(o.scale);
  args.rows = o.x.size(0);
  args.x = Address(o.x, o.x, "x");
  args.weight = Address(o.weight, o.x, "weight");
  args.a = Address(o.a, o.x, "a");
  args.b[0] = Address(o.b, o.x, "b");
  args.h = Address(h, o.x, "h");
  return args;
}

}  // namespace

Tensor LoraForward(const LoraOperands& operands, const optional<Tensor>& bias, const Tensor& h) {
  const Tensor& x = operands.x;
  coxswain_lora_linear_args args = ArgsOf(operands, h);
  Tensor y = EmptyTensor({x.size(0), operands.weight.size(0)}, x);
  if (bias.has_value()) {
    RequireSize(*bias, operands.weight.size(0), "bias");
    args.bias = Address(*bias, x, "bias");
  }
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH_LENT(lora_linear_forward, args, x);
  return y;
}

LoraGradients LoraBackward(const LoraOperands& operands, const Tensor& dy, const Tensor& dx,
                           const Tensor& h) {
  const Tensor &x = operands.x, &a = operands.a, &b = operands.b;
  coxswain_lora_linear_args args = ArgsOf(operands, h);
  const Tensor da = ZeroFloats(a.sizes(), x), db = ZeroFloats(b.sizes(), x);
  args.dy = Address(dy, x, "dy");
  args.da = da.data_ptr();
  args.db[0] = db.data_ptr();
  args.dx = dx.defined() ? dx.data_ptr() : nullptr;
  COXSWAIN_LAUNCH_LENT(lora_linear_backward, args, x);
  return {da.to(a.scalar_type()), db.to(b.scalar_type())};
}

namespace lora_linear_op {
namespace {

std::tuple<Tensor, Tensor> LoraLinear(const Tensor& x_given, const Tensor& weight,
                                      const optional<Tensor>& bias, const Tensor& a,
                                      const Tensor& b, double scale) {
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  Tensor h = EmptyTensor({x.size(0), a.size(0)}, x);
  const Tensor y = LoraForward({x, weight.contiguous(), a, b, scale}, bias, h);
  std::vector<int64_t> shape = x_given.sizes().vec();
  shape.back() = weight.size(0);
  return {y.view(shape), h};
}

std::tuple<Tensor, Tensor, Tensor> LoraLinearBackward(const Tensor& dy_given, const Tensor& x_given,
                                                      const Tensor& weight, const Tensor& a,
                                                      const Tensor& b, const Tensor& h,
                                                      double scale, bool wants_x) {
  const Tensor dy = dy_given.reshape({-1, dy_given.size(-1)}).contiguous();
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  Tensor dx = wants_x ? EmptyTensor(x_given.sizes(), x) : None(x);
  const Tensor rows = wants_x ? dx.view({-1, x.size(1)}) : Tensor();
  auto [da, db] = LoraBackward({x, weight.contiguous(), a, b, scale}, dy, rows, h);
  return {dx, da, db};
}

class LoraLinearFunction : public torch::autograd::Function<LoraLinearFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const optional<Tensor>& bias, const Tensor& a, const Tensor& b,
                               double scale) {
    TORCH_CHECK_VALUE(!weight.requires_grad() && !OrNone(bias).requires_grad(),
                      "coxswain: lora_linear has no gradient of its weight and bias");
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, h] = COXSWAIN_OP("lora_linear", LoraLinear).call(x, weight, bias, a, b, scale);
    ctx->save_for_backward({x, weight, a, b, h});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["x"] = x.requires_grad();
    OnlyValues(ctx, {h});
    return {y, h};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(6);
    const variable_list saved = ctx->get_saved_variables();
    const bool x = ctx->saved_data["x"].toBool();
    const auto [dx, da, db] = COXSWAIN_OP("lora_linear_backward", LoraLinearBackward)
                                  .call(gradients[0], saved[0], saved[1], saved[2], saved[3],
                                        saved[4], ctx->saved_data["scale"].toDouble(), x);
    return {Asked(dx, x), Tensor(), Tensor(), da, db, Tensor()};
  }
};

std::tuple<Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight,
                                          const optional<Tensor>& bias, const Tensor& a,
                                          const Tensor& b, double scale) {
  const variable_list out = LoraLinearFunction::apply(x, weight, bias, a, b, scale);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                    const optional<Tensor>& bias, const Tensor& a, const Tensor& b,
                                    double scale) {
  const WithoutAutocast without;
  return COXSWAIN_OP("lora_linear", LoraLinear)
      .call(Lowered(x), Lowered(weight), Lowered(bias), Lowered(a), Lowered(b), scale);
}

void Kernels(torch::Library& library) {
  library.impl("lora_linear", LoraLinear);
  library.impl("lora_linear_backward", LoraLinearBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "lora_linear(Tensor x, Tensor weight, Tensor? bias, Tensor a, Tensor b, float scale) -> "
      "(Tensor, Tensor)");
  library.def(
      "lora_linear_backward(Tensor dy, Tensor x, Tensor weight, Tensor a, Tensor b, Tensor h, "
      "float scale, bool wants_x) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("lora_linear", Differentiable); }
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) { library.impl("lora_linear", Autocast); }

}  // namespace lora_linear_op
}  // namespace coxswain::kernels::torch_ops
