// Which form of cut_cross_entropy.h runs.
#include "kernels/loss/cut_cross_entropy.h"

#include "kernels/cuda/loss/cut_product.h"
#include "kernels/loss/cut_panels.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {

bool CutCrossEntropySupports(const CutCrossEntropySpec& spec) {
  return spec.hidden > 0 && spec.logit_scale > 0.0f &&
         GemmSupports({.dtype = spec.dtype, .output_dtype = spec.weight_gradient_dtype}) &&
         CrossEntropySupports({.dtype = spec.dtype,
                               .vocab = spec.vocab,
                               .label_smoothing = spec.label_smoothing,
                               .z_loss = spec.z_loss,
                               .softcap = spec.softcap});
}

void CutCrossEntropyForward(const CutCrossEntropyForwardArgs& args, Stream* stream) {
  if (!ValidateCut(args)) return;
  if (cuda::CutProductRuns(args.spec, args.x, args.weight)) {
    cuda::CutProductForward(args, stream);
  } else {
    PlainCutForward(args, stream);
  }
}

void CutCrossEntropyBackward(const CutCrossEntropyBackwardArgs& args, Stream* stream) {
  if (!ValidateCut(args)) return;
  const bool runs = cuda::CutProductRuns(args.spec, args.x, args.weight);
  CutGradients(args, runs ? cuda::CutProductGradient : PlainCutGradient, stream);
}

}  // namespace coxswain::kernels
