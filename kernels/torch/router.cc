// The router of a mixture of experts and its losses; formulas: kernels/experts/route.h,
// router_loss.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::router_op {
namespace {

struct RouteOptions {
  bool sigmoid;
  int64_t groups, top_groups;
  bool renormalise;
  double scale;
};

coxswain_route_args RouteArgs(const Tensor& logits, int64_t chosen, const RouteOptions& options) {
  RequireDims(logits, 2, "logits");
  coxswain_route_args args = {};
  args.score = options.sigmoid ? COXSWAIN_SIGMOID : COXSWAIN_SOFTMAX;
  args.renormalise = options.renormalise;
  args.tokens = logits.size(0);
  args.experts = logits.size(1);
  args.chosen = chosen;
  args.groups = options.groups;
  args.top_groups = options.top_groups;
  args.scale = static_cast<float>(options.scale);
  args.logits = Floats(logits, logits, "logits");
  return args;
}

std::tuple<Tensor, Tensor> Route(const Tensor& logits_given, int64_t chosen, bool sigmoid,
                                 const optional<Tensor>& bias, int64_t groups, int64_t top_groups,
                                 bool renormalise, double scale, const optional<Tensor>& padding) {
  const Tensor logits = logits_given.contiguous();
  auto args = RouteArgs(logits, chosen, {sigmoid, groups, top_groups, renormalise, scale});
  if (bias.has_value()) {
    RequireSize(*bias, args.experts, "bias");
    args.bias = Floats(*bias, logits, "bias");
  }
  if (padding.has_value()) {
    RequireSize(*padding, args.tokens, "padding");
    args.padding = Ints(*padding, logits, "padding");
  }
  Tensor weights = EmptyFloats({args.tokens, chosen}, logits);
  Tensor ids = at::empty({args.tokens, chosen}, logits.options().dtype(at::kInt));
  args.weights = weights.data_ptr<float>();
  args.ids = ids.data_ptr<int32_t>();
  COXSWAIN_LAUNCH(route_forward, args, logits);
  return {weights, ids};
}

Tensor RouteBackward(const Tensor& dweights_given, const Tensor& logits_given, const Tensor& ids,
                     bool sigmoid, int64_t groups, int64_t top_groups, bool renormalise,
                     double scale) {
  const Tensor dweights = dweights_given.contiguous(), logits = logits_given.contiguous();
  RequireDims(ids, 2, "ids");
  auto args = RouteArgs(logits, ids.size(1), {sigmoid, groups, top_groups, renormalise, scale});
  RequireSize(ids, args.tokens * args.chosen, "ids");
  RequireSize(dweights, args.tokens * args.chosen, "dweights");
  Tensor dlogits = EmptyLike(logits);
  args.ids = AddressOf<int32_t>(ids, at::kInt, logits, "ids");
  args.dweights = Floats(dweights, logits, "dweights");
  args.dlogits = dlogits.data_ptr<float>();
  COXSWAIN_LAUNCH(route_backward, args, logits);
  return dlogits;
}

coxswain_router_loss_args LossArgs(const Tensor& logits, const Tensor& ids) {
  RequireDims(logits, 2, "logits");
  RequireDims(ids, 2, "ids");
  RequireSize(ids, logits.size(0) * ids.size(1), "ids");
  coxswain_router_loss_args args = {};
  args.tokens = logits.size(0);
  args.experts = logits.size(1);
  args.chosen = ids.size(1);
  args.logits = Floats(logits, logits, "logits");
  args.ids = Ints(ids, logits, "ids");
  return args;
}

std::tuple<Tensor, Tensor> RouterLoss(const Tensor& logits_given, const Tensor& ids) {
  const Tensor logits = logits_given.contiguous();
  auto args = LossArgs(logits, ids);
  const auto doubles = logits.options().dtype(at::kDouble);
  Tensor losses = at::empty({2}, doubles), sums = at::empty({2 * args.experts + 2}, doubles);
  args.sums = sums.data_ptr<double>();
  args.losses = losses.data_ptr<double>();
  COXSWAIN_LAUNCH_LENT(router_loss_sums, args, logits);
  COXSWAIN_LAUNCH(router_loss, args, logits);
  return {losses, sums};
}

Tensor RouterLossBackward(const Tensor& dlosses, const Tensor& logits_given, const Tensor& ids,
                          const Tensor& sums) {
  const Tensor logits = logits_given.contiguous();
  const Tensor factors = dlosses.to(at::kFloat).contiguous();
  auto args = LossArgs(logits, ids);
  RequireSize(factors, 2, "dlosses");
  RequireSize(sums, 2 * args.experts + 2, "sums");
  const Tensor dlogits = ZeroFloats(logits.sizes(), logits);
  args.sums = AddressOf<double>(sums, at::kDouble, logits, "sums");
  args.factors = Floats(factors, logits, "dlosses");
  args.dlogits = dlogits.data_ptr<float>();
  COXSWAIN_LAUNCH(router_loss_gradient, args, logits);
  return dlogits;
}

class RouteFunction : public torch::autograd::Function<RouteFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, int64_t chosen,
                               bool sigmoid, const optional<Tensor>& bias, int64_t groups,
                               int64_t top_groups, bool renormalise, double scale,
                               const optional<Tensor>& padding) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [weights, ids] =
        COXSWAIN_OP("route", Route)
            .call(logits, chosen, sigmoid, bias, groups, top_groups, renormalise, scale, padding);
    ctx->save_for_backward({logits, ids});
    ctx->saved_data["sigmoid"] = sigmoid;
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["top_groups"] = top_groups;
    ctx->saved_data["renormalise"] = renormalise;
    ctx->saved_data["scale"] = scale;
    OnlyValues(ctx, {ids});
    return {weights, ids};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    variable_list out(9);
    if (!gradients[0].defined()) return out;
    const variable_list saved = ctx->get_saved_variables();
    out[0] =
        COXSWAIN_OP("route_backward", RouteBackward)
            .call(gradients[0], saved[0], saved[1], ctx->saved_data["sigmoid"].toBool(),
                  ctx->saved_data["groups"].toInt(), ctx->saved_data["top_groups"].toInt(),
                  ctx->saved_data["renormalise"].toBool(), ctx->saved_data["scale"].toDouble());
    return out;
  }
};

class RouterLossFunction : public torch::autograd::Function<RouterLossFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, const Tensor& ids) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [losses, sums] = COXSWAIN_OP("router_loss", RouterLoss).call(logits, ids);
    ctx->save_for_backward({logits, ids, sums});
    OnlyValues(ctx, {sums});
    return {losses, sums};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(2);
    const variable_list saved = ctx->get_saved_variables();
    return {COXSWAIN_OP("router_loss_backward", RouterLossBackward)
                .call(gradients[0], saved[0], saved[1], saved[2]),
            Tensor()};
  }
};

std::tuple<Tensor, Tensor> DifferentiableRoute(const Tensor& logits, int64_t chosen, bool sigmoid,
                                               const optional<Tensor>& bias, int64_t groups,
                                               int64_t top_groups, bool renormalise, double scale,
                                               const optional<Tensor>& padding) {
  const variable_list out = RouteFunction::apply(logits, chosen, sigmoid, bias, groups, top_groups,
                                                 renormalise, scale, padding);
  return {out[0], out[1]};
}

std::tuple<Tensor, Tensor> DifferentiableRouterLoss(const Tensor& logits, const Tensor& ids) {
  const variable_list out = RouterLossFunction::apply(logits, ids);
  return {out[0], out[1]};
}

void Kernels(torch::Library& library) {
  library.impl("route", Route);
  library.impl("route_backward", RouteBackward);
  library.impl("router_loss", RouterLoss);
  library.impl("router_loss_backward", RouterLossBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "route(Tensor logits, int chosen, bool sigmoid, Tensor? bias, int groups, int top_groups, "
      "bool renormalise, float scale, Tensor? padding) -> (Tensor, Tensor)");
  library.def(
      "route_backward(Tensor dweights, Tensor logits, Tensor ids, bool sigmoid, int groups, int "
      "top_groups, bool renormalise, float scale) -> Tensor");
  library.def("router_loss(Tensor logits, Tensor ids) -> (Tensor, Tensor)");
  library.def(
      "router_loss_backward(Tensor dlosses, Tensor logits, Tensor ids, Tensor sums) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("route", DifferentiableRoute);
  library.impl("router_loss", DifferentiableRouterLoss);
}

}  // namespace coxswain::kernels::torch_ops::router_op
