// A gated MLP: down(act(gate(x)) up(x)); formulas: kernels/products/gated_linear.h.
//
// Where `up` lies behind `gate` in memory both are one weight [2 I, H], and the product may run in
// one launch with the activation. Elsewhere two products fill one gate_up. Saved for backward: x
// and gate_up; its gradient comes in a copy, or, `overwrites`, in its place: then a second backward
// of the same graph fails.
#include "kernels/torch/product.h"
#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops::gated_mlp_op {
namespace {

// Given as one, or lying so.
optional<Tensor> GateAndUp(const Tensor& gate, const optional<Tensor>& up) {
  return up.has_value() ? Joined({gate, *up}) : optional<Tensor>(gate);
}

coxswain_gated_linear_args ArgsOf(const Tensor& x, const Tensor& gate_up, int64_t activation) {
  TORCH_CHECK_VALUE(activation >= COXSWAIN_SILU && activation <= COXSWAIN_GELU,
                    "coxswain: no activation ", activation);
  coxswain_gated_linear_args args = {};
  args.dtype = Type(x, "x");
  args.activation = static_cast<int32_t>(activation);
  args.rows = x.size(0);
  args.hidden = x.size(1);
  args.intermediate = gate_up.size(1) / 2;
  args.gate_up = gate_up.data_ptr();
  return args;
}

Tensor GemmScratch(const Tensor& like) {
  CurrentStream(like);  // the device is chosen before its library is asked
  return Scratch(
      FunctionOf(like, &coxswain_gemm_workspace_bytes, "coxswain_gemm_workspace_bytes")(), like);
}

void Activate(const Tensor& gate_up, const Tensor& y, int64_t activation) {
  if (activation == COXSWAIN_SILU) {
    coxswain_swiglu_args args = {};
    args.dtype = Type(y, "y");
    args.rows = y.size(0);
    args.intermediate = y.size(1);
    args.gate_up = gate_up.data_ptr();
    args.y = y.data_ptr();
    COXSWAIN_LAUNCH(swiglu_forward, args, y);
    return;
  }
  coxswain_geglu_args args = {};
  args.dtype = Type(y, "y");
  args.erf = activation == COXSWAIN_GELU;
  args.rows = y.size(0);
  args.intermediate = y.size(1);
  args.gate_up = gate_up.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(geglu_forward, args, y);
}

void GateUp(const Tensor& x, const Tensor& gate, const optional<Tensor>& up, const Tensor& gate_up,
            const Tensor& y, int64_t activation) {
  if (const optional<Tensor> joined = GateAndUp(gate, up)) {
    coxswain_gated_linear_args args = ArgsOf(x, gate_up, activation);
    args.x = Address(x, x, "x");
    args.weight = Address(*joined, x, "gate");
    args.y = y.data_ptr();
    const Tensor scratch = GemmScratch(x);
    args.workspace = {scratch.data_ptr(), scratch.numel()};
    COXSWAIN_LAUNCH(gated_linear_forward, args, x);
    return;
  }
  const int64_t width = gate.size(0);
  Product(gate_up.narrow(1, 0, width), x, gate, {.transpose_b = true});
  Product(gate_up.narrow(1, width, width), x, *up, {.transpose_b = true});
  Activate(gate_up, y, activation);
}

// act(gate(x)) up(x) of x's leading extents, and gate_up [rows, 2 I].
std::tuple<Tensor, Tensor> GatedMlpActivation(const Tensor& x_given, const Tensor& gate,
                                              const optional<Tensor>& up, int64_t activation) {
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  TORCH_CHECK_VALUE(gate.size(1) == x.size(1) && (up.has_value() || gate.size(0) % 2 == 0),
                    "coxswain: gate of ", gate.sizes(), " beside x of ", x_given.sizes());
  const int64_t width = up.has_value() ? gate.size(0) : gate.size(0) / 2;
  Tensor gate_up = EmptyTensor({x.size(0), 2 * width}, x);
  std::vector<int64_t> shape = x_given.sizes().vec();
  shape.back() = width;
  Tensor y = EmptyTensor(shape, x);
  GateUp(x, gate, up, gate_up, y.view({-1, width}), activation);
  return {y, gate_up};
}

Tensor GatedMlpProduct(const Tensor& y, const Tensor& down) {
  std::vector<int64_t> shape = y.sizes().vec();
  TORCH_CHECK_VALUE(shape.back() == down.size(1), "coxswain: down of ", down.sizes(),
                    " beside gate's products of ", y.sizes());
  shape.back() = down.size(0);
  return Linear(y.reshape({-1, y.size(-1)}), down).view(shape);
}

// gate_up is the second result.
std::tuple<Tensor, Tensor> GatedMlp(const Tensor& x, const Tensor& gate, const optional<Tensor>& up,
                                    const Tensor& down, int64_t activation, bool /*overwrites*/) {
  const auto [y, gate_up] = GatedMlpActivation(x, gate, up, activation);
  return {GatedMlpProduct(y, down), gate_up};
}

struct Wants {
  bool x = false, gate_up = false, down = false;
};

// dx, dgate, dup, ddown; `gradient` holds gate_up and becomes its gradient. dup is empty where the
// weights were given as one.
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Gradients BackwardIn(const Tensor& gradient, const Tensor& dout_given, const Tensor& x_given,
                     const Tensor& gate, const optional<Tensor>& up, const Tensor& down,
                     int64_t activation, const Wants& wants) {
  const Tensor dout = dout_given.reshape({-1, dout_given.size(-1)}).contiguous();
  const Tensor x = x_given.reshape({-1, x_given.size(-1)}).contiguous();
  const int64_t width = down.size(1);
  Tensor y = EmptyTensor({x.size(0), width}, x);
  coxswain_gated_linear_args args = ArgsOf(dout, gradient, activation);
  args.x = Address(dout, x, "dout");
  args.weight = Address(down, x, "down");
  args.y = y.data_ptr();
  args.wants_y = wants.down;
  const Tensor scratch = GemmScratch(x);
  args.workspace = {scratch.data_ptr(), scratch.numel()};
  COXSWAIN_LAUNCH(gated_linear_backward, args, x);
  Tensor ddown = wants.down ? WeightGradient(dout, y) : None(x);
  y.reset();  // before the other gradients take memory
  Tensor dgate = None(x), dup = None(x), dx = None(x);
  if (wants.gate_up) {
    dgate = WeightGradient(up.has_value() ? gradient.narrow(1, 0, width) : gradient, x);
    if (up.has_value()) dup = WeightGradient(gradient.narrow(1, width, width), x);
  }
  if (wants.x) {
    dx = EmptyTensor(x_given.sizes(), x);
    const Tensor rows = dx.view({-1, x.size(1)});
    if (const optional<Tensor> joined = GateAndUp(gate, up)) {
      Product(rows, gradient, *joined, {});
    } else {
      Product(rows, gradient.narrow(1, 0, width), gate, {});
      Product(rows, gradient.narrow(1, width, width), *up, {.beta = 1.0f});
    }
  }
  return {dx, dgate, dup, ddown};
}

Gradients GatedMlpBackward(const Tensor& dout, const Tensor& x, const Tensor& gate_up,
                           const Tensor& gate, const optional<Tensor>& up, const Tensor& down,
                           int64_t activation, bool wants_x, bool wants_gate_up, bool wants_down) {
  return BackwardIn(Copy(gate_up), dout, x, gate, up, down, activation,
                    {wants_x, wants_gate_up, wants_down});
}

// In the place of gate_up.
Gradients GatedMlpBackwardOver(const Tensor& dout, const Tensor& x, const Tensor& gate_up,
                               const Tensor& gate, const optional<Tensor>& up, const Tensor& down,
                               int64_t activation, bool wants_x, bool wants_gate_up,
                               bool wants_down) {
  gate_up.unsafeGetTensorImpl()->bump_version();
  return BackwardIn(gate_up, dout, x, gate, up, down, activation,
                    {wants_x, wants_gate_up, wants_down});
}

// The first node. Of its results the activation counts only as a value: the gradient of the whole
// comes back through `link`, a tensor of the whole's shape without memory that nothing reads.
class GatedMlpFunction : public torch::autograd::Function<GatedMlpFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& gate,
                               const optional<Tensor>& up, const Tensor& down, int64_t activation,
                               bool overwrites) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, gate_up] =
        COXSWAIN_OP("gated_mlp_activation", GatedMlpActivation).call(x, gate, up, activation);
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = down.size(0);
    const Tensor link = EmptyTensor({1}, y).expand(shape);
    ctx->save_for_backward({x, gate_up, gate, OrNone(up), down});
    ctx->saved_data["activation"] = activation;
    ctx->saved_data["overwrites"] = overwrites;
    ctx->saved_data["x"] = x.requires_grad();
    ctx->saved_data["gate_up"] = gate.requires_grad() || OrNone(up).requires_grad();
    ctx->saved_data["down"] = down.requires_grad();
    OnlyValues(ctx, {y, gate_up});
    return {link, y, gate_up};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(6);
    const variable_list saved = ctx->get_saved_variables();
    const optional<Tensor> up = Present(saved[3]);
    const int64_t activation = ctx->saved_data["activation"].toInt();
    const bool x = ctx->saved_data["x"].toBool(), gate_up = ctx->saved_data["gate_up"].toBool();
    const bool down = ctx->saved_data["down"].toBool();
    const Tensor& dout = gradients[0];
    const auto [dx, dgate, dup, ddown] =
        ctx->saved_data["overwrites"].toBool()
            ? COXSWAIN_OP("gated_mlp_backward_", GatedMlpBackwardOver)
                  .call(dout, saved[0], saved[1], saved[2], up, saved[4], activation, x, gate_up,
                        down)
            : COXSWAIN_OP("gated_mlp_backward", GatedMlpBackward)
                  .call(dout, saved[0], saved[1], saved[2], up, saved[4], activation, x, gate_up,
                        down);
    return {Asked(dx, x),
            Asked(dgate, gate_up),
            Asked(dup, gate_up && up.has_value()),
            Asked(ddown, down),
            Tensor(),
            Tensor()};
  }
};

// The second.
class GatedMlpProductFunction : public torch::autograd::Function<GatedMlpProductFunction> {
 public:
  static Tensor forward(AutogradContext* /*ctx*/, const Tensor& /*link*/, const Tensor& y,
                        const Tensor& down) {
    at::AutoDispatchBelowADInplaceOrView below;
    return COXSWAIN_OP("gated_mlp_product", GatedMlpProduct).call(y, down);
  }

  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& gradients) {
    return {gradients[0], Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& gate,
                                          const optional<Tensor>& up, const Tensor& down,
                                          int64_t activation, bool overwrites) {
  const variable_list out = GatedMlpFunction::apply(x, gate, up, down, activation, overwrites);
  return {GatedMlpProductFunction::apply(out[0], out[1], down.detach()), out[2]};
}

std::tuple<Tensor, Tensor> Autocast(const Tensor& x, const Tensor& gate, const optional<Tensor>& up,
                                    const Tensor& down, int64_t activation, bool overwrites) {
  const WithoutAutocast without;
  return COXSWAIN_OP("gated_mlp", GatedMlp)
      .call(Lowered(x), Lowered(gate), Lowered(up), Lowered(down), activation, overwrites);
}

void Kernels(torch::Library& library) {
  library.impl("gated_mlp", GatedMlp);
  library.impl("gated_mlp_activation", GatedMlpActivation);
  library.impl("gated_mlp_product", GatedMlpProduct);
  library.impl("gated_mlp_backward", GatedMlpBackward);
  library.impl("gated_mlp_backward_", GatedMlpBackwardOver);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "gated_mlp(Tensor x, Tensor gate, Tensor? up, Tensor down, int activation, bool overwrites) "
      "-> (Tensor, Tensor)");
  library.def(
      "gated_mlp_activation(Tensor x, Tensor gate, Tensor? up, int activation) -> (Tensor, "
      "Tensor)");
  library.def("gated_mlp_product(Tensor y, Tensor down) -> Tensor");
  library.def(
      "gated_mlp_backward(Tensor dout, Tensor x, Tensor gate_up, Tensor gate, Tensor? up, Tensor "
      "down, int activation, bool wants_x, bool wants_gate_up, bool wants_down) -> (Tensor, "
      "Tensor, Tensor, Tensor)");
  library.def(
      "gated_mlp_backward_(Tensor dout, Tensor x, Tensor(a!) gate_up, Tensor gate, Tensor? up, "
      "Tensor down, int activation, bool wants_x, bool wants_gate_up, bool wants_down) -> (Tensor, "
      "Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("gated_mlp", Differentiable); }
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) { library.impl("gated_mlp", Autocast); }

}  // namespace coxswain::kernels::torch_ops::gated_mlp_op
