// A frozen linear with a weight-decomposed adapter: u = x W^T + s (x A^T) B^T, y = u m / n + bias,
// n the lengths of the rows of W + s B A, which count as constants; formulas: kernels/lora/dora.h.
#include "kernels/torch/lora_linear.h"
#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops::dora_linear_op {
namespace {

coxswain_dora_args ArgsOf(const Tensor& like, const Tensor& a, const Tensor& b,
                          const Tensor& magnitude, double scale, const Tensor& norm,
                          const Tensor& factor) {
  RequireSize(magnitude, b.size(0), "magnitude");
  coxswain_dora_args args = {};
  args.dtype = Type(like, "x");
  args.members = 1;
  args.in_features = a.size(1);
  args.rank = a.size(0);
  args.out_features[0] = args.ldy = b.size(0);
  args.scale = static_cast<float>(scale);
  args.a = Address(a, like, "a");
  args.b[0] = Address(b, like, "b");
  args.magnitude[0] = Address(magnitude, like, "magnitude");
  args.norm = Floats(norm, like, "norm");
  args.factor = Floats(factor, like, "factor");
  return args;
}

Tensor RowSquares(const Tensor& weight) {
  const Tensor squares = EmptyFloats({weight.size(0)}, weight);
  coxswain_dora_row_squares_args args = {};
  args.dtype = Type(weight, "weight");
  args.rows = weight.size(0);
  args.columns = weight.size(1);
  args.w = Address(weight, weight, "weight");
  args.squares = squares.data_ptr<float>();
  COXSWAIN_LAUNCH(dora_row_squares, args, weight);
  return squares;
}

// y, then what backward reads: h, u, norm, factor.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> DoraLinear(
    const Tensor& x_given, const Tensor& weight, const optional<Tensor>& bias, const Tensor& a,
    const Tensor& b, const Tensor& magnitude, double scale) {
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  Tensor norm = EmptyFloats({b.size(0)}, x), factor = EmptyFloats({b.size(0)}, x);
  Tensor h = EmptyTensor({x.size(0), a.size(0)}, x);
  Tensor u = LoraForward({x, weight, a, b, scale}, {}, h);
  const Tensor squares = RowSquares(weight);
  coxswain_dora_args args = ArgsOf(x, a, b, magnitude, scale, norm, factor);
  args.w = weight.data_ptr();
  args.squares = squares.data_ptr<float>();
  COXSWAIN_LAUNCH_LENT(dora_factors, args, x);
  std::vector<int64_t> shape = x_given.sizes().vec();
  shape.back() = weight.size(0);
  Tensor y = EmptyTensor(shape, x);
  args.rows = x.size(0);
  args.u = u.data_ptr();
  args.bias = bias.has_value() ? Address(*bias, x, "bias") : nullptr;
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(dora_forward, args, x);
  return {y, h, u, norm, factor};
}

// dx, da, db, dmagnitude.
std::tuple<Tensor, Tensor, Tensor, Tensor> DoraLinearBackward(
    const Tensor& dy, const Tensor& x_given, const Tensor& weight, const Tensor& a, const Tensor& b,
    const Tensor& magnitude, const Tensor& h, const Tensor& u, const Tensor& norm,
    const Tensor& factor, double scale, bool wants_x) {
  const Tensor du = Copy(dy.reshape({-1, dy.size(-1)}));
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  Tensor dmagnitude = ZeroFloats(magnitude.sizes(), x);
  coxswain_dora_args args = ArgsOf(x, a, b, magnitude, scale, norm, factor);
  args.dmagnitude[0] = dmagnitude.data_ptr();
  args.rows = x.size(0);
  args.u = Address(u, x, "u");
  args.dy = Address(du, x, "dy");
  COXSWAIN_LAUNCH_LENT(dora_backward, args, x);
  Tensor dx = wants_x ? EmptyTensor(x_given.sizes(), x) : None(x);
  const Tensor rows = wants_x ? dx.view({-1, x.size(1)}) : Tensor();
  auto [da, db] = LoraBackward({x, weight, a, b, scale}, du, rows, h);
  return {dx, da, db, dmagnitude.to(magnitude.scalar_type())};
}

class DoraLinearFunction : public torch::autograd::Function<DoraLinearFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const optional<Tensor>& bias, const Tensor& a, const Tensor& b,
                               const Tensor& magnitude, double scale) {
    TORCH_CHECK_VALUE(!weight.requires_grad() && !OrNone(bias).requires_grad(),
                      "coxswain: dora_linear has no gradient of its weight and bias");
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, h, u, norm, factor] =
        COXSWAIN_OP("dora_linear", DoraLinear).call(x, weight, bias, a, b, magnitude, scale);
    ctx->save_for_backward({x, weight, a, b, magnitude, h, u, norm, factor});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["x"] = x.requires_grad();
    OnlyValues(ctx, {h, u, norm, factor});
    return {y, h, u, norm, factor};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(7);
    const variable_list saved = ctx->get_saved_variables();
    const bool x = ctx->saved_data["x"].toBool();
    const auto [dx, da, db, dmagnitude] =
        COXSWAIN_OP("dora_linear_backward", DoraLinearBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                  saved[6], saved[7], saved[8], ctx->saved_data["scale"].toDouble(), x);
    return {Asked(dx, x), Tensor(), Tensor(), da, db, dmagnitude, Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> Differentiable(
    const Tensor& x, const Tensor& weight, const optional<Tensor>& bias, const Tensor& a,
    const Tensor& b, const Tensor& magnitude, double scale) {
  const variable_list out = DoraLinearFunction::apply(x, weight, bias, a, b, magnitude, scale);
  return {out[0], out[1], out[2], out[3], out[4]};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                                            const optional<Tensor>& bias,
                                                            const Tensor& a, const Tensor& b,
                                                            const Tensor& magnitude, double scale) {
  const WithoutAutocast without;
  return COXSWAIN_OP("dora_linear", DoraLinear)
      .call(Lowered(x), Lowered(weight), Lowered(bias), Lowered(a), Lowered(b), Lowered(magnitude),
            scale);
}

void Kernels(torch::Library& library) {
  library.impl("dora_linear", DoraLinear);
  library.impl("dora_linear_backward", DoraLinearBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "dora_linear(Tensor x, Tensor weight, Tensor? bias, Tensor a, Tensor b, Tensor magnitude, "
      "float scale) -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "dora_linear_backward(Tensor dy, Tensor x, Tensor weight, Tensor a, Tensor b, Tensor "
      "magnitude, Tensor h, Tensor u, Tensor norm, Tensor factor, float scale, bool wants_x) -> "
      "(Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("dora_linear", Differentiable); }
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) { library.impl("dora_linear", Autocast); }

}  // namespace coxswain::kernels::torch_ops::dora_linear_op
