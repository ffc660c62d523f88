// Cross-entropy of logits; formulas: kernels/loss/cross_entropy.h. The first result is the sum of
// the rows' losses and alone has a gradient; then the losses of rows, and those without smoothing
// and z-loss.
#include <ATen/ops/sum.h>

#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::cross_entropy_op {
namespace {

struct Options {
  double label_smoothing, z_loss, softcap;
};

coxswain_cross_entropy_args ArgsOf(const Tensor& logits, const Tensor& targets,
                                   const Options& options) {
  RequireDims(logits, 2, "logits");
  RequireSize(targets, logits.size(0), "targets");
  coxswain_cross_entropy_args args = {};
  args.dtype = Type(logits, "logits");
  args.rows = logits.size(0);
  args.vocab = logits.size(1);
  args.label_smoothing = static_cast<float>(options.label_smoothing);
  args.z_loss = static_cast<float>(options.z_loss);
  args.softcap = static_cast<float>(options.softcap);
  args.logits = logits.data_ptr();
  args.targets = Ints(targets, logits, "targets");
  return args;
}

std::tuple<Tensor, Tensor, Tensor> CrossEntropy(const Tensor& logits_given, const Tensor& targets,
                                                double label_smoothing, double z_loss,
                                                double softcap) {
  const Tensor logits = logits_given.contiguous();
  auto args = ArgsOf(logits, targets, {label_smoothing, z_loss, softcap});
  Tensor loss = EmptyFloats({args.rows}, logits), nll = EmptyFloats({args.rows}, logits);
  args.loss = loss.data_ptr<float>();
  args.nll = nll.data_ptr<float>();
  COXSWAIN_LAUNCH(cross_entropy, args, logits);
  return {at::sum(loss), loss, nll};
}

// dsum: one float.
Tensor CrossEntropyBackward(const Tensor& dsum_given, const Tensor& logits_given,
                            const Tensor& targets, double label_smoothing, double z_loss,
                            double softcap) {
  const Tensor dsum = dsum_given.contiguous(), logits = logits_given.contiguous();
  Tensor gradient = EmptyLike(logits);
  const Tensor loss = EmptyFloats({logits.size(0)}, logits);
  auto args = ArgsOf(logits, targets, {label_smoothing, z_loss, softcap});
  args.gradient = gradient.data_ptr();
  RequireSize(dsum, 1, "dsum");
  args.gradient_scale = Floats(dsum, logits, "dsum");
  args.loss = loss.data_ptr<float>();
  COXSWAIN_LAUNCH(cross_entropy, args, logits);
  return gradient;
}

class CrossEntropyFunction : public torch::autograd::Function<CrossEntropyFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, const Tensor& targets,
                               double label_smoothing, double z_loss, double softcap) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [sum, loss, nll] = COXSWAIN_OP("cross_entropy", CrossEntropy)
                                      .call(logits, targets, label_smoothing, z_loss, softcap);
    ctx->save_for_backward({logits, targets});
    ctx->saved_data["label_smoothing"] = label_smoothing;
    ctx->saved_data["z_loss"] = z_loss;
    ctx->saved_data["softcap"] = softcap;
    OnlyValues(ctx, {loss, nll});
    return {sum, loss, nll};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    if (!gradients[0].defined()) return variable_list(5);
    const variable_list saved = ctx->get_saved_variables();
    Tensor gradient =
        COXSWAIN_OP("cross_entropy_backward", CrossEntropyBackward)
            .call(gradients[0], saved[0], saved[1], ctx->saved_data["label_smoothing"].toDouble(),
                  ctx->saved_data["z_loss"].toDouble(), ctx->saved_data["softcap"].toDouble());
    return {gradient, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor, Tensor> Differentiable(const Tensor& logits, const Tensor& targets,
                                                  double label_smoothing, double z_loss,
                                                  double softcap) {
  const variable_list out =
      CrossEntropyFunction::apply(logits, targets, label_smoothing, z_loss, softcap);
  return {out[0], out[1], out[2]};
}

void Kernels(torch::Library& library) {
  library.impl("cross_entropy", CrossEntropy);
  library.impl("cross_entropy_backward", CrossEntropyBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def(
      "cross_entropy(Tensor logits, Tensor targets, float label_smoothing, float z_loss, float "
      "softcap) -> (Tensor, Tensor, Tensor)");
  library.def(
      "cross_entropy_backward(Tensor dsum, Tensor logits, Tensor targets, float label_smoothing, "
      "float z_loss, float softcap) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("cross_entropy", Differentiable); }

}  // namespace coxswain::kernels::torch_ops::cross_entropy_op
