// Which algorithm a product takes, and whether alternatives may be timed now
// (kernels/products/gemm.h has the switch).
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_

#include "kernels/cuda/products/gemm_plan.h"
#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {

// What SetGemmTuning says, unless the stream is being captured.
bool MayTune(const Stream* stream);

// What the table has for the product, or the fastest while tuning is on, else the heuristic's
// favourite; it is in the table from then on.
GemmChoice ChooseGemm(const Product& args, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_
