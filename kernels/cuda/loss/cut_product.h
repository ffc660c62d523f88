// The products of cut_cross_entropy.h whose logits stay in registers: bfloat16 on compute
// capability 9.0, H a multiple of 8.
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_H_
#define COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_H_

#include "kernels/loss/cut_panels.h"

namespace coxswain::kernels::cuda {

bool CutProductRuns(const CutCrossEntropySpec& spec, const void* x, const void* weight);

void CutProductForward(const CutCrossEntropyForwardArgs& args, Stream* stream);
// Fills a panel with dz (FillCutPanel). The panels of a backward come in order.
void CutProductGradient(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                        const CutPanel& panel, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_CUT_PRODUCT_H_
