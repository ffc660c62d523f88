// Cross-entropy of x W^T whose logits exist in chunks, or cut; formulas:
// kernels/loss/cross_entropy.h.
//
// Chunks of rows in turn: logits, losses with the gradient of `scale` times their sum in place of
// the logits, dx, dW += dlogits^T x. dW is kept in W's type, each chunk's product summed in float32
// and rounded when it is added. The gradients are made in the forward, as long as the logits are
// there; backward multiplies them by the gradient of the result, or, `overwrites`, does so in their
// place where that is not 1: then a second backward of the same graph fails.
// Chunks of 0 rows: the cut head (kernels/loss/cut_cross_entropy.h), in 136 MiB of workspace; dW is
// then written once, dx summed in float32. Source: Hsu et al., "Liger Kernel", 2024, section 3.2.
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include "kernels/torch/product.h"
#include "kernels/torch/registration.h"

namespace coxswain::kernels::torch_ops::linear_cross_entropy_op {
namespace {

struct Head {
  Tensor x, weight, targets, scale;  // scale: one float
  double label_smoothing, z_loss, softcap;
  Tensor dx, dweight;  // undefined: not wanted
  Tensor loss;         // [rows]
};

void Chunk(const Head& head, const Tensor& logits, int64_t begin, int64_t rows) {
  const Tensor x = head.x.narrow(0, begin, rows);
  Product(logits, x, head.weight, {.transpose_b = true});
  coxswain_cross_entropy_args args = {};
  args.dtype = Type(logits, "x");
  args.rows = rows;
  args.vocab = logits.size(1);
  args.label_smoothing = static_cast<float>(head.label_smoothing);
  args.z_loss = static_cast<float>(head.z_loss);
  args.softcap = static_cast<float>(head.softcap);
  args.logits = logits.data_ptr();
  args.targets = Ints(head.targets, logits, "targets") + begin;
  const bool gradients = head.dx.defined() || head.dweight.defined();
  args.gradient_scale = gradients ? Floats(head.scale, logits, "scale") : nullptr;
  args.loss = head.loss.data_ptr<float>() + begin;
  COXSWAIN_LAUNCH(cross_entropy, args, logits);
  if (head.dx.defined()) Product(head.dx.narrow(0, begin, rows), logits, head.weight, {});
  if (head.dweight.defined()) {
    Product(head.dweight, logits, x, {.transpose_a = true, .beta = begin == 0 ? 0.0f : 1.0f});
  }
}

void Chunks(const Head& head, int64_t chunk_rows) {
  const int64_t rows = head.x.size(0);
  const Tensor logits = EmptyTensor({std::min(rows, chunk_rows), head.weight.size(0)}, head.x);
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    Chunk(head, logits.narrow(0, 0, count), begin, count);
  }
}

void Cut(Head* head) {
  const Tensor& x = head->x;
  coxswain_cut_cross_entropy_args args = {};
  args.dtype = args.grad_dtype = Type(x, "x");
  args.rows = x.size(0);
  args.hidden = x.size(1);
  args.vocab = head->weight.size(0);
  args.label_smoothing = static_cast<float>(head->label_smoothing);
  args.z_loss = static_cast<float>(head->z_loss);
  args.softcap = static_cast<float>(head->softcap);
  args.x = x.data_ptr();
  args.weight = Address(head->weight, x, "weight");
  args.targets = Ints(head->targets, x, "targets");
  args.loss = head->loss.data_ptr<float>();
  const Tensor statistics = EmptyFloats({args.rows, 2}, x);
  args.statistics = statistics.data_ptr<float>();
  const int64_t bytes = FunctionOf(x, &coxswain_cut_cross_entropy_workspace_bytes,
                                   "coxswain_cut_cross_entropy_workspace_bytes")(&args);
  Check(bytes < 0 ? COXSWAIN_INVALID_ARGUMENT : COXSWAIN_OK, "cut_cross_entropy", x);
  const Tensor scratch = Scratch(bytes, x);
  args.workspace = {scratch.data_ptr(), bytes};
  COXSWAIN_LAUNCH(cut_cross_entropy_forward, args, x);
  if (!head->dx.defined() && !head->dweight.defined()) return;
  const Tensor dx = head->dx.defined() ? EmptyFloats(x.sizes(), x) : Tensor();
  args.gradient_scale = Floats(head->scale, x, "scale");
  args.dx = dx.defined() ? dx.data_ptr<float>() : nullptr;
  args.dweight = head->dweight.defined() ? head->dweight.data_ptr() : nullptr;
  COXSWAIN_LAUNCH(cut_cross_entropy_backward, args, x);
  if (dx.defined()) head->dx.copy_(dx);
}

// scale times the sum of losses, dx, dW.
std::tuple<Tensor, Tensor, Tensor> LinearCrossEntropy(const Tensor& x_given, const Tensor& weight,
                                                      const Tensor& targets, const Tensor& scale,
                                                      double label_smoothing, double z_loss,
                                                      double softcap, int64_t chunk_rows,
                                                      bool /*overwrites*/, bool wants_x,
                                                      bool wants_weight) {
  RequireDims(x_given, 2, "x");
  TORCH_CHECK_VALUE(chunk_rows >= 0, "coxswain: chunks of ", chunk_rows, " rows");
  Head head = {
      x_given.contiguous(), weight, targets, scale, label_smoothing, z_loss, softcap, {}, {}, {}};
  const int64_t rows = head.x.size(0);
  RequireSize(targets, rows, "targets");
  RequireSize(scale, 1, "scale");
  Address(weight, head.x, "weight");
  if (wants_x) head.dx = EmptyLike(head.x);
  if (wants_weight) head.dweight = rows > 0 ? EmptyLike(weight) : weight.mul(0);
  head.loss = EmptyFloats({rows}, head.x);
  if (chunk_rows == 0) {
    Cut(&head);
  } else {
    Chunks(head, chunk_rows);
  }
  const Tensor sum = at::sum(head.loss).mul(scale.reshape({}));
  return {sum, wants_x ? head.dx : None(head.x), wants_weight ? head.dweight : None(weight)};
}

// x times factor, one float, in place.
void Scale(const Tensor& x, const Tensor& factor_given) {
  const Tensor factor = factor_given.to(at::kFloat);
  RequireSize(factor, 1, "factor");
  coxswain_scale_args args = {};
  args.dtype = Type(x, "x");
  args.count = x.numel();
  args.factor = Floats(factor, x, "factor");
  args.x = x.data_ptr();
  COXSWAIN_LAUNCH(scale, args, x);
  x.unsafeGetTensorImpl()->bump_version();
}

class LinearCrossEntropyFunction : public torch::autograd::Function<LinearCrossEntropyFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& targets, const Tensor& scale, double label_smoothing,
                               double z_loss, double softcap, int64_t chunk_rows, bool overwrites) {
    const bool wants_x = x.requires_grad(), wants_weight = weight.requires_grad();
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [sum, dx, dweight] =
        COXSWAIN_OP("linear_cross_entropy", LinearCrossEntropy)
            .call(x, weight, targets, scale, label_smoothing, z_loss, softcap, chunk_rows,
                  overwrites, wants_x, wants_weight);
    ctx->save_for_backward({dx, dweight});
    ctx->saved_data["overwrites"] = overwrites;
    ctx->saved_data["wants_x"] = wants_x;
    ctx->saved_data["wants_weight"] = wants_weight;
    OnlyValues(ctx, {dx, dweight});
    return {sum, dx, dweight};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(9);
    const variable_list saved = ctx->get_saved_variables();
    const auto times = [&](const Tensor& gradient, const char* wanted) {
      if (!ctx->saved_data[wanted].toBool()) return Tensor();
      if (ctx->saved_data["overwrites"].toBool()) {
        COXSWAIN_OP("scale_", Scale).call(gradient, gradients[0]);
        return gradient;
      }
      return gradient.mul(gradients[0].to(gradient.scalar_type()));
    };
    return {times(saved[0], "wants_x"),
            times(saved[1], "wants_weight"),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

// Which gradients are wanted is told by the tensors, not by the caller.
std::tuple<Tensor, Tensor, Tensor> Differentiable(const Tensor& x, const Tensor& weight,
                                                  const Tensor& targets, const Tensor& scale,
                                                  double label_smoothing, double z_loss,
                                                  double softcap, int64_t chunk_rows,
                                                  bool overwrites, bool wants_x,
                                                  bool wants_weight) {
  if (!at::GradMode::is_enabled() || !(x.requires_grad() || weight.requires_grad())) {
    at::AutoDispatchBelowADInplaceOrView below;
    return COXSWAIN_OP("linear_cross_entropy", LinearCrossEntropy)
        .call(x, weight, targets, scale, label_smoothing, z_loss, softcap, chunk_rows, overwrites,
              wants_x, wants_weight);
  }
  const variable_list out = LinearCrossEntropyFunction::apply(
      x, weight, targets, scale, label_smoothing, z_loss, softcap, chunk_rows, overwrites);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor, Tensor> Autocast(const Tensor& x, const Tensor& weight,
                                            const Tensor& targets, const Tensor& scale,
                                            double label_smoothing, double z_loss, double softcap,
                                            int64_t chunk_rows, bool overwrites, bool wants_x,
                                            bool wants_weight) {
  const WithoutAutocast without;
  return COXSWAIN_OP("linear_cross_entropy", LinearCrossEntropy)
      .call(Lowered(x), Lowered(weight), targets, scale, label_smoothing, z_loss, softcap,
            chunk_rows, overwrites, wants_x, wants_weight);
}

void Kernels(torch::Library& library) {
  library.impl("linear_cross_entropy", LinearCrossEntropy);
  library.impl("scale_", Scale);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, Tensor scale, float "
      "label_smoothing, float z_loss, float softcap, int chunk_rows, bool overwrites=False, bool "
      "wants_x=False, bool wants_weight=False) -> (Tensor, Tensor, Tensor)");
  library.def("scale_(Tensor(a!) x, Tensor factor) -> ()");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) {
  library.impl("linear_cross_entropy", Differentiable);
}
TORCH_LIBRARY_IMPL(coxswain, AutocastCUDA, library) {
  library.impl("linear_cross_entropy", Autocast);
}

}  // namespace coxswain::kernels::torch_ops::linear_cross_entropy_op
