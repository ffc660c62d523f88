// SwiGLU, GeGLU and GELU; formulas: kernels/activations/gates.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::activations_op {
namespace {

template <typename Args>
Args GatedArgs(const Tensor& gate_up) {
  TORCH_CHECK_VALUE(gate_up.size(-1) % 2 == 0, "coxswain: gate_up has ", gate_up.size(-1),
                    " columns, must be twice a width");
  Args args = {};
  args.dtype = Type(gate_up, "gate_up");
  args.rows = Rows(gate_up);
  args.intermediate = gate_up.size(-1) / 2;
  return args;
}

Tensor Swiglu(const Tensor& gate_up_given) {
  const Tensor gate_up = gate_up_given.contiguous();
  auto args = GatedArgs<coxswain_swiglu_args>(gate_up);
  Tensor y = EmptyColumns(gate_up, args.intermediate);
  args.gate_up = gate_up.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(swiglu_forward, args, gate_up);
  return y;
}

Tensor SwigluBackward(const Tensor& dy_given, const Tensor& gate_up_given) {
  const Tensor dy = dy_given.contiguous(), gate_up = gate_up_given.contiguous();
  Tensor gradient = EmptyLike(gate_up);
  auto args = GatedArgs<coxswain_swiglu_args>(gate_up);
  args.dy = Address(dy, gate_up, "dy");
  args.gate_up = gate_up.data_ptr();
  args.gradient = gradient.data_ptr();
  COXSWAIN_LAUNCH(swiglu_backward, args, gradient);
  return gradient;
}

Tensor Geglu(const Tensor& gate_up_given, bool erf) {
  const Tensor gate_up = gate_up_given.contiguous();
  auto args = GatedArgs<coxswain_geglu_args>(gate_up);
  Tensor y = EmptyColumns(gate_up, args.intermediate);
  args.erf = erf;
  args.gate_up = gate_up.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(geglu_forward, args, gate_up);
  return y;
}

Tensor GegluBackward(const Tensor& dy_given, const Tensor& gate_up_given, bool erf) {
  const Tensor dy = dy_given.contiguous(), gate_up = gate_up_given.contiguous();
  Tensor gradient = EmptyLike(gate_up);
  auto args = GatedArgs<coxswain_geglu_args>(gate_up);
  args.erf = erf;
  args.dy = Address(dy, gate_up, "dy");
  args.gate_up = gate_up.data_ptr();
  args.gradient = gradient.data_ptr();
  COXSWAIN_LAUNCH(geglu_backward, args, gradient);
  return gradient;
}

Tensor Gelu(const Tensor& x_given, bool erf) {
  const Tensor x = x_given.contiguous();
  Tensor y = EmptyLike(x);
  coxswain_gelu_args args = {};
  args.dtype = Type(x, "x");
  args.erf = erf;
  args.rows = Rows(x);
  args.columns = x.size(-1);
  args.x = x.data_ptr();
  args.y = y.data_ptr();
  COXSWAIN_LAUNCH(gelu_forward, args, x);
  return y;
}

Tensor GeluBackward(const Tensor& dy_given, const Tensor& x_given, bool erf) {
  const Tensor dy = dy_given.contiguous(), x = x_given.contiguous();
  Tensor gradient = EmptyLike(x);
  coxswain_gelu_args args = {};
  args.dtype = Type(x, "x");
  args.erf = erf;
  args.rows = Rows(x);
  args.columns = x.size(-1);
  args.dy = Address(dy, x, "dy");
  args.x = x.data_ptr();
  args.gradient = gradient.data_ptr();
  COXSWAIN_LAUNCH(gelu_backward, args, x);
  return gradient;
}

class SwigluFunction : public torch::autograd::Function<SwigluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({gate_up.contiguous()});
    return COXSWAIN_OP("swiglu", Swiglu).call(gate_up);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {COXSWAIN_OP("swiglu_backward", SwigluBackward)
                .call(gradients[0], ctx->get_saved_variables()[0])};
  }
};

class GegluFunction : public torch::autograd::Function<GegluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up, bool erf) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({gate_up.contiguous()});
    ctx->saved_data["erf"] = erf;
    return COXSWAIN_OP("geglu", Geglu).call(gate_up, erf);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {COXSWAIN_OP("geglu_backward", GegluBackward)
                .call(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["erf"].toBool()),
            Tensor()};
  }
};

class GeluFunction : public torch::autograd::Function<GeluFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, bool erf) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({x.contiguous()});
    ctx->saved_data["erf"] = erf;
    return COXSWAIN_OP("gelu", Gelu).call(x, erf);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {COXSWAIN_OP("gelu_backward", GeluBackward)
                .call(gradients[0], ctx->get_saved_variables()[0], ctx->saved_data["erf"].toBool()),
            Tensor()};
  }
};

Tensor DifferentiableSwiglu(const Tensor& gate_up) { return SwigluFunction::apply(gate_up); }
Tensor DifferentiableGeglu(const Tensor& gate_up, bool erf) {
  return GegluFunction::apply(gate_up, erf);
}
Tensor DifferentiableGelu(const Tensor& x, bool erf) { return GeluFunction::apply(x, erf); }

void Kernels(torch::Library& library) {
  library.impl("swiglu", Swiglu);
  library.impl("swiglu_backward", SwigluBackward);
  library.impl("geglu", Geglu);
  library.impl("geglu_backward", GegluBackward);
  library.impl("gelu", Gelu);
  library.impl("gelu_backward", GeluBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def("swiglu(Tensor gate_up) -> Tensor");
  library.def("swiglu_backward(Tensor dy, Tensor gate_up) -> Tensor");
  library.def("geglu(Tensor gate_up, bool erf) -> Tensor");
  library.def("geglu_backward(Tensor dy, Tensor gate_up, bool erf) -> Tensor");
  library.def("gelu(Tensor x, bool erf) -> Tensor");
  library.def("gelu_backward(Tensor dy, Tensor x, bool erf) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("swiglu", DifferentiableSwiglu);
  library.impl("geglu", DifferentiableGeglu);
  library.impl("gelu", DifferentiableGelu);
}

}  // namespace coxswain::kernels::torch_ops::activations_op
