// What lies between a router and the sum of its experts; formulas:
// kernels/experts/expert_rows.h, grouped_linear.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::experts_op {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor> SortByExpert(const Tensor& ids_given, int64_t experts) {
  const Tensor ids = ids_given.contiguous();
  RequireDims(ids, 2, "ids");
  Tensor order = EmptyTensor({ids.numel()}, ids), places = EmptyLike(ids);
  Tensor offsets = EmptyTensor({experts + 1}, ids), counts = EmptyTensor({experts}, ids);
  coxswain_sort_by_expert_args args = {};
  args.tokens = ids.size(0);
  args.chosen = ids.size(1);
  args.experts = experts;
  args.ids = Ints(ids, ids, "ids");
  args.order = order.data_ptr<int32_t>();
  args.places = places.data_ptr<int32_t>();
  args.offsets = offsets.data_ptr<int32_t>();
  args.counts = counts.data_ptr<int32_t>();
  COXSWAIN_LAUNCH_LENT(sort_by_expert, args, ids);
  return {order, places, offsets, counts};
}

// Of x or y [T, H] beside places [T, k].
template <typename Args>
Args PlacesArgs(const Tensor& like, const Tensor& places) {
  RequireDims(like, 2, "rows");
  RequireDims(places, 2, "places");
  Args args = {};
  args.dtype = Type(like, "rows");
  args.tokens = places.size(0);
  args.chosen = places.size(1);
  args.hidden = like.size(1);
  args.places = Ints(places, like, "places");
  return args;
}

const int32_t* Order(const Tensor& order, const Tensor& places, const Tensor& like) {
  RequireSize(order, places.numel(), "order");
  return Ints(order, like, "order");
}

Tensor Dispatch(const Tensor& x_given, const Tensor& order, const Tensor& places) {
  const Tensor x = x_given.contiguous();
  auto args = PlacesArgs<coxswain_dispatch_args>(x, places);
  RequireSize(x, args.tokens * args.hidden, "x");
  Tensor rows = EmptyTensor({places.numel(), args.hidden}, x);
  args.order = Order(order, places, x);
  args.x = x.data_ptr();
  args.rows = rows.data_ptr();
  COXSWAIN_LAUNCH(dispatch_forward, args, x);
  return rows;
}

Tensor DispatchBackward(const Tensor& drows_given, const Tensor& places) {
  const Tensor drows = drows_given.contiguous();
  auto args = PlacesArgs<coxswain_dispatch_args>(drows, places);
  RequireSize(drows, places.numel() * args.hidden, "drows");
  Tensor dx = EmptyTensor({args.tokens, args.hidden}, drows);
  args.drows = drows.data_ptr();
  args.dx = dx.data_ptr();
  COXSWAIN_LAUNCH(dispatch_backward, args, drows);
  return dx;
}

coxswain_combine_args CombineArgs(const Tensor& rows, const Tensor& weights, const Tensor& order,
                                  const Tensor& places) {
  auto args = PlacesArgs<coxswain_combine_args>(rows, places);
  RequireSize(rows, places.numel() * args.hidden, "rows");
  RequireSize(weights, places.numel(), "weights");
  args.order = Order(order, places, rows);
  args.weights = Floats(weights, rows, "weights");
  args.rows = rows.data_ptr();
  return args;
}

Tensor Combine(const Tensor& rows_given, const Tensor& weights_given, const Tensor& order,
               const Tensor& places) {
  const Tensor rows = rows_given.contiguous(), weights = weights_given.contiguous();
  auto args = CombineArgs(rows, weights, order, places);
  Tensor y = EmptyTensor({args.tokens, args.hidden}, rows);
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(combine_forward, args, rows);
  return y;
}

std::tuple<Tensor, Tensor> CombineBackward(const Tensor& dy_given, const Tensor& rows_given,
                                           const Tensor& weights_given, const Tensor& order,
                                           const Tensor& places, bool wants_rows,
                                           bool wants_weights) {
  const Tensor dy = dy_given.contiguous(), rows = rows_given.contiguous();
  const Tensor weights = weights_given.contiguous();
  auto args = CombineArgs(rows, weights, order, places);
  RequireSize(dy, args.tokens * args.hidden, "dy");
  Tensor drows = wants_rows ? EmptyLike(rows) : None(rows);
  Tensor dweights = wants_weights ? EmptyLike(weights) : None(weights);
  args.dy = Address(dy, rows, "dy");
  args.drows = wants_rows ? drows.data_ptr() : nullptr;
  args.dweights = wants_weights ? dweights.data_ptr<float>() : nullptr;
  COXSWAIN_LAUNCH(combine_backward, args, rows);
  return {drows, dweights};
}

coxswain_grouped_linear_args LinearArgs(const Tensor& rows, const Tensor& weight,
                                        const Tensor& offsets) {
  RequireDims(rows, 2, "x");
  RequireDims(weight, 3, "weight");
  coxswain_grouped_linear_args args = {};
  args.dtype = Type(rows, "x");
  args.rows = rows.size(0);
  args.experts = weight.size(0);
  args.out_features = weight.size(1);
  args.in_features = weight.size(2);
  RequireSize(offsets, args.experts + 1, "offsets");
  args.offsets = Ints(offsets, rows, "offsets");
  args.weight = Address(weight, rows, "weight");
  return args;
}

Tensor GroupedLinear(const Tensor& x_given, const Tensor& weight_given,
                     const optional<Tensor>& bias, const Tensor& offsets) {
  const Tensor x = x_given.contiguous(), weight = weight_given.contiguous();
  auto args = LinearArgs(x, weight, offsets);
  RequireSize(x, args.rows * args.in_features, "x");
  Tensor y = EmptyTensor({args.rows, args.out_features}, x);
  if (bias.has_value()) {
    RequireSize(*bias, args.experts * args.out_features, "bias");
    args.bias = Address(*bias, x, "bias");
  }
  args.x = x.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(grouped_linear_forward, args, x);
  return y;
}

std::tuple<Tensor, Tensor, Tensor> GroupedLinearBackward(const Tensor& dy_given,
                                                         const Tensor& x_given,
                                                         const Tensor& weight_given,
                                                         const Tensor& offsets, bool wants_x,
                                                         bool wants_weight, bool wants_bias) {
  const Tensor dy = dy_given.contiguous(), x = x_given.contiguous();
  const Tensor weight = weight_given.contiguous();
  auto args = LinearArgs(x, weight, offsets);
  RequireSize(x, args.rows * args.in_features, "x");
  RequireSize(dy, args.rows * args.out_features, "dy");
  args.x = x.data_ptr();
  args.dy = Address(dy, x, "dy");
  Tensor dx = wants_x ? EmptyLike(x) : None(x);
  Tensor dweight = wants_weight ? EmptyFloats(weight.sizes(), x) : None(weight);
  Tensor dbias = wants_bias ? EmptyFloats({args.experts, args.out_features}, x) : None(weight);
  if (wants_x) {
    args.dx = dx.data_ptr();
    COXSWAIN_LAUNCH(grouped_linear_input_gradient, args, x);
  }
  if (wants_weight || wants_bias) {
    args.dweight = wants_weight ? dweight.data_ptr() : nullptr;
    args.dbias = wants_bias ? dbias.data_ptr() : nullptr;
    COXSWAIN_LAUNCH(grouped_linear_weight_gradient, args, x);
  }
  return {dx, dweight.to(weight.scalar_type()), dbias.to(weight.scalar_type())};
}

class DispatchFunction : public torch::autograd::Function<DispatchFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& order,
                        const Tensor& places) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({places});
    return COXSWAIN_OP("dispatch", Dispatch).call(x, order, places);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {COXSWAIN_OP("dispatch_backward", DispatchBackward)
                .call(gradients[0], ctx->get_saved_variables()[0]),
            Tensor(), Tensor()};
  }
};

class CombineFunction : public torch::autograd::Function<CombineFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& weights,
                        const Tensor& order, const Tensor& places) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({rows, weights, order, places});
    ctx->saved_data["rows"] = rows.requires_grad();
    ctx->saved_data["weights"] = weights.requires_grad();
    return COXSWAIN_OP("combine", Combine).call(rows, weights, order, places);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool rows = ctx->saved_data["rows"].toBool();
    const bool weights = ctx->saved_data["weights"].toBool();
    const auto [drows, dweights] =
        COXSWAIN_OP("combine_backward", CombineBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], saved[3], rows, weights);
    return {Asked(drows, rows), Asked(dweights, weights), Tensor(), Tensor()};
  }
};

class GroupedLinearFunction : public torch::autograd::Function<GroupedLinearFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const optional<Tensor>& bias, const Tensor& offsets) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x, weight, offsets});
    ctx->saved_data["x"] = x.requires_grad();
    ctx->saved_data["weight"] = weight.requires_grad();
    ctx->saved_data["bias"] = bias.has_value() && bias->requires_grad();
    return COXSWAIN_OP("grouped_linear", GroupedLinear).call(x, weight, bias, offsets);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool x = ctx->saved_data["x"].toBool(), weight = ctx->saved_data["weight"].toBool();
    const bool bias = ctx->saved_data["bias"].toBool();
    const auto [dx, dweight, dbias] =
        COXSWAIN_OP("grouped_linear_backward", GroupedLinearBackward)
            .call(gradients[0], saved[0], saved[1], saved[2], x, weight, bias);
    return {Asked(dx, x), Asked(dweight, weight), Asked(dbias, bias), Tensor()};
  }
};

Tensor DifferentiableDispatch(const Tensor& x, const Tensor& order, const Tensor& places) {
  return DispatchFunction::apply(x, order, places);
}
Tensor DifferentiableCombine(const Tensor& rows, const Tensor& weights, const Tensor& order,
                             const Tensor& places) {
  return CombineFunction::apply(rows, weights, order, places);
}
Tensor DifferentiableGroupedLinear(const Tensor& x, const Tensor& weight,
                                   const optional<Tensor>& bias, const Tensor& offsets) {
  return GroupedLinearFunction::apply(x, weight, bias, offsets);
}

Tensor AutocastGroupedLinear(const Tensor& x, const Tensor& weight, const optional<Tensor>& bias,
                             const Tensor& offsets) {
  const WithoutAutocast without;
  return COXSWAIN_OP("grouped_linear", GroupedLinear)
      .call(Lowered(x), Lowered(weight), Lowered(bias), offsets);
}

void Kernels(torch::Library& library) {
  library.impl("sort_by_expert", SortByExpert);
  library.impl("dispatch", Dispatch);
  library.impl("dispatch_backward", DispatchBackward);
  library.impl("combine", Combine);
  library.impl("combine_backward", CombineBackward);
  library.impl("grouped_linear", GroupedLinear);
  library.impl("grouped_linear_backward", GroupedLinearBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def("sort_by_expert(Tensor ids, int experts) -> (Tensor, Tensor, Tensor, Tensor)");
  library.def("dispatch(Tensor x, Tensor order, Tensor places) -> Tensor");
  library.def("dispatch_backward(Tensor drows, Tensor places) -> Tensor");
  library.def("combine(Tensor rows, Tensor weights, Tensor order, Tensor places) -> Tensor");
  library.def(
      "combine_backward(Tensor dy, Tensor rows, Tensor weights, Tensor order, Tensor places, bool "
      "wants_rows, bool wants_weights) -> (Tensor, Tensor)");
  library.def("grouped_linear(Tensor x, Tensor weight, Tensor? bias, Tensor offsets) -> Tensor");
  library.def(
      "grouped_linear_backward(Tensor dy, Tensor x, Tensor weight, Tensor offsets, bool wants_x, "
      "bool wants_weight, bool wants_bias) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("dispatch", DifferentiableDispatch);
  library.impl("combine", DifferentiableCombine);
  library.impl("grouped_linear", DifferentiableGroupedLinear);
}
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) {
  library.impl("grouped_linear", AutocastGroupedLinear);
}

}  // namespace coxswain::kernels::torch_ops::experts_op
