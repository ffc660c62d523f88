// Whether alternatives of a product may be timed now (kernels/products/gemm.h has the switch).
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_

#include "kernels/cuda/stream.h"

namespace coxswain::kernels::cuda {

// What SetGemmTuning says, unless the stream is being captured.
bool MayTune(const Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_GEMM_TUNING_H_
