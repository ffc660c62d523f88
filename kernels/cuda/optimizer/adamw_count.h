// The end of an update, of whichever optimizer.
#ifndef COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_COUNT_H_
#define COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_COUNT_H_

#include <cuda_runtime_api.h>

#include "kernels/optimizer/adamw.h"

namespace coxswain::kernels::cuda {

// Adds 1 to applied_updates unless the update is skipped: behind all blocks that read it.
void CountUpdate(OptimizerScalars* scalars, cudaStream_t stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_OPTIMIZER_ADAMW_COUNT_H_
