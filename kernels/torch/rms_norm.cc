// RMSNorm and residual add + RMSNorm; formulas: kernels/norms/norms.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::rms_norm_op {
namespace {

std::tuple<Tensor, Tensor> RmsNorm(const Tensor& x_given, const Tensor& weight, double eps,
                                   double weight_offset) {
  const Tensor x = x_given.contiguous();
  RequireSize(weight, x.size(-1), "weight");
  Tensor y = EmptyLike(x), rstd = EmptyFloats({Rows(x)}, x);
  coxswain_rms_norm_args args = {};
  args.dtype = Type(x, "x");
  args.rows = Rows(x);
  args.hidden = x.size(-1);
  args.eps = static_cast<float>(eps);
  args.weight_offset = static_cast<float>(weight_offset);
  args.x = x.data_ptr();
  args.weight = Address(weight, x, "weight");
  args.y = y.data_ptr();
  args.rstd = rstd.data_ptr<float>();
  COXSWAIN_LAUNCH(rms_norm_forward, args, x);
  return {y, rstd};
}

std::tuple<Tensor, Tensor, Tensor> AddRmsNorm(const Tensor& x_given, const Tensor& residual_given,
                                              const Tensor& weight, double eps,
                                              double weight_offset) {
  const Tensor x = x_given.contiguous(), residual = residual_given.contiguous();
  RequireSize(weight, x.size(-1), "weight");
  RequireSize(residual, x.numel(), "residual");
  Tensor y = EmptyLike(x), sum = EmptyLike(x), rstd = EmptyFloats({Rows(x)}, x);
  coxswain_rms_norm_args args = {};
  args.dtype = Type(x, "x");
  args.rows = Rows(x);
  args.hidden = x.size(-1);
  args.eps = static_cast<float>(eps);
  args.weight_offset = static_cast<float>(weight_offset);
  args.x = x.data_ptr();
  args.residual = Address(residual, x, "residual");
  args.weight = Address(weight, x, "weight");
  args.sum = sum.data_ptr();
  args.y = y.data_ptr();
  args.rstd = rstd.data_ptr<float>();
  COXSWAIN_LAUNCH(rms_norm_forward, args, x);
  return {y, sum, rstd};
}

// dsum: what flows past the norm, which its gradient is added to.
std::tuple<Tensor, Tensor> RmsNormBackward(const Tensor& dy_given, const optional<Tensor>& dsum,
                                           const Tensor& x, const Tensor& weight,
                                           const Tensor& rstd, double weight_offset,
                                           bool wants_weight) {
  const Tensor dy = dy_given.contiguous();
  Tensor dx = dsum.has_value() ? Copy(*dsum) : EmptyLike(x);
  Tensor dweight = wants_weight ? ZeroFloats(weight.sizes(), x) : None(weight);
  coxswain_rms_norm_backward_args args = {};
  args.dtype = Type(x, "x");
  args.rows = Rows(x);
  args.hidden = x.size(-1);
  args.weight_offset = static_cast<float>(weight_offset);
  args.dy = Address(dy, x, "dy");
  args.x = Address(x, x, "x");
  args.weight = Address(weight, x, "weight");
  args.rstd = Floats(rstd, x, "rstd");
  args.accumulate_dx = dsum.has_value();
  args.dx = Address(dx, x, "dsum");
  args.dweight = wants_weight ? dweight.data_ptr() : nullptr;
  COXSWAIN_LAUNCH_LENT(rms_norm_backward, args, x);
  return {dx, dweight.to(weight.scalar_type())};
}

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               double eps, double weight_offset) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, rstd] = COXSWAIN_OP("rms_norm", RmsNorm).call(x, weight, eps, weight_offset);
    ctx->save_for_backward({x.contiguous(), weight, rstd});
    ctx->saved_data["weight_offset"] = weight_offset;
    ctx->saved_data["wants_weight"] = weight.requires_grad();
    OnlyValues(ctx, {rstd});
    return {y, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(4);
    const variable_list saved = ctx->get_saved_variables();
    const bool wants_weight = ctx->saved_data["wants_weight"].toBool();
    const auto [dx, dweight] = COXSWAIN_OP("rms_norm_backward", RmsNormBackward)
                                   .call(gradients[0], {}, saved[0], saved[1], saved[2],
                                         ctx->saved_data["weight_offset"].toDouble(), wants_weight);
    return {dx, Asked(dweight, wants_weight), Tensor(), Tensor()};
  }
};

class AddRmsNormFunction : public torch::autograd::Function<AddRmsNormFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& residual,
                               const Tensor& weight, double eps, double weight_offset) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, sum, rstd] =
        COXSWAIN_OP("add_rms_norm", AddRmsNorm).call(x, residual, weight, eps, weight_offset);
    ctx->save_for_backward({sum, weight, rstd});
    ctx->saved_data["weight_offset"] = weight_offset;
    ctx->saved_data["wants_weight"] = weight.requires_grad();
    OnlyValues(ctx, {rstd});
    return {y, sum, rstd};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return {gradients[1], gradients[1], Tensor(), Tensor(), Tensor()};
    const variable_list saved = ctx->get_saved_variables();
    const bool wants_weight = ctx->saved_data["wants_weight"].toBool();
    const auto [dx, dweight] =
        COXSWAIN_OP("rms_norm_backward", RmsNormBackward)
            .call(gradients[0], Present(gradients[1]), saved[0], saved[1], saved[2],
                  ctx->saved_data["weight_offset"].toDouble(), wants_weight);
    return {dx, dx, Asked(dweight, wants_weight), Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight, double eps,
                                          double weight_offset) {
  const variable_list out = RmsNormFunction::apply(x, weight, eps, weight_offset);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor, Tensor> DifferentiableAdd(const Tensor& x, const Tensor& residual,
                                                     const Tensor& weight, double eps,
                                                     double weight_offset) {
  const variable_list out = AddRmsNormFunction::apply(x, residual, weight, eps, weight_offset);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight, double eps,
                                    double weight_offset) {
  const WithoutAutocast without;
  const at::ScalarType type = Widest({x, weight});
  return COXSWAIN_OP("rms_norm", RmsNorm).call(x.to(type), weight.to(type), eps, weight_offset);
}

std::tuple<Tensor, Tensor, Tensor> AutocastAdd(const Tensor& x, const Tensor& residual,
                                               const Tensor& weight, double eps,
                                               double weight_offset) {
  const WithoutAutocast without;
  const at::ScalarType type = Widest({x, residual, weight});
  return COXSWAIN_OP("add_rms_norm", AddRmsNorm)
      .call(x.to(type), residual.to(type), weight.to(type), eps, weight_offset);
}

void Kernels(torch::Library& library) {
  library.impl("rms_norm", RmsNorm);
  library.impl("add_rms_norm", AddRmsNorm);
  library.impl("rms_norm_backward", RmsNormBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "rms_norm(Tensor x, Tensor weight, float eps, float weight_offset) -> (Tensor, Tensor)");
  library.def(
      "add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps, float weight_offset) -> "
      "(Tensor, Tensor, Tensor)");
  library.def(
      "rms_norm_backward(Tensor dy, Tensor? dsum, Tensor x, Tensor weight, Tensor rstd, float "
      "weight_offset, bool wants_weight) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("rms_norm", Differentiable);
  library.impl("add_rms_norm", DifferentiableAdd);
}
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) {
  library.impl("rms_norm", Autocast);
  library.impl("add_rms_norm", AutocastAdd);
}

}  // namespace coxswain::kernels::torch_ops::rms_norm_op
