// Rows of a table by int32 ids, times a scale; formulas: kernels/tensors/rows.h.
#include "kernels/torch/registration.h"
#include "kernels/torch/tensors.h"

namespace coxswain::kernels::torch_ops::embedding_op {
namespace {

Tensor Embedding(const Tensor& ids_given, const Tensor& weight, double scale) {
  const Tensor ids = ids_given.contiguous();
  RequireDims(weight, 2, "weight");
  std::vector<int64_t> shape = ids.sizes().vec();
  shape.push_back(weight.size(1));
  Tensor out = EmptyTensor(shape, weight);
  coxswain_embedding_args args = {};
  args.dtype = Type(weight, "weight");
  args.vocab = weight.size(0);
  args.hidden = weight.size(1);
  args.tokens = ids.numel();
  args.scale = static_cast<float>(scale);
  args.ids = Ints(ids, weight, "ids");
  args.weight = Address(weight, weight, "weight");
  args.out = out.data_ptr();
  COXSWAIN_LAUNCH(embedding_forward, args, weight);
  return out;
}

Tensor EmbeddingBackward(const Tensor& dout_given, const Tensor& ids_given, const Tensor& weight,
                         double scale) {
  const Tensor dout = dout_given.contiguous(), ids = ids_given.contiguous();
  RequireSize(ids, Rows(dout), "ids");
  const Tensor dweight = ZeroFloats(weight.sizes(), dout);
  coxswain_embedding_args args = {};
  args.dtype = Type(dout, "dout");
  args.vocab = weight.size(0);
  args.hidden = dout.size(-1);
  args.tokens = ids.numel();
  args.scale = static_cast<float>(scale);
  args.ids = Ints(ids, dout, "ids");
  args.dout = dout.data_ptr();
  args.dweight = dweight.data_ptr();
  COXSWAIN_LAUNCH_LENT(embedding_backward, args, dout);
  return dout.scalar_type() == at::kFloat ? dweight : dweight.to(dout.scalar_type());
}

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& ids, const Tensor& weight,
                        double scale) {
    at::AutoDispatchBelowADInplaceOrView below;
    ctx->save_for_backward({ids, weight});
    ctx->saved_data["scale"] = scale;
    return COXSWAIN_OP("embedding", Embedding).call(ids, weight, scale);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    Tensor dweight =
        COXSWAIN_OP("embedding_backward", EmbeddingBackward)
            .call(gradients[0], saved[0], saved[1], ctx->saved_data["scale"].toDouble());
    return {Tensor(), dweight, Tensor()};
  }
};

Tensor Differentiable(const Tensor& ids, const Tensor& weight, double scale) {
  return EmbeddingFunction::apply(ids, weight, scale);
}

void Kernels(torch::Library& library) {
  library.impl("embedding", Embedding);
  library.impl("embedding_backward", EmbeddingBackward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(coxswain, library) {
  SayPythonModule(library);
  library.def("embedding(Tensor ids, Tensor weight, float scale) -> Tensor");
  library.def("embedding_backward(Tensor dout, Tensor ids, Tensor weight, float scale) -> Tensor");
}
TORCH_LIBRARY_IMPL(coxswain, CPU, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, CUDA, library) { Kernels(library); }
TORCH_LIBRARY_IMPL(coxswain, Autograd, library) { library.impl("embedding", Differentiable); }

}  // namespace coxswain::kernels::torch_ops::embedding_op
