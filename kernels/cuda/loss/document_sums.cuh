// Sums of a loss and its reports over the pairs or documents of a block.
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_DOCUMENT_SUMS_CUH_
#define COXSWAIN_KERNELS_CUDA_LOSS_DOCUMENT_SUMS_CUH_

#include "kernels/cuda/reduce.cuh"
#include "kernels/loss/document_loss.h"

namespace coxswain::kernels::cuda {

// Loss and reports of a thread, as an array that the block adds up.
struct UnitSums {
  double of[1 + kPreferenceSums] = {};

  __device__ __forceinline__ void Add(double loss, const PreferenceSums& r) {
    const double all[1 + kPreferenceSums] = {loss,         r.rewards_chosen, r.rewards_rejected,
                                             r.accuracies, r.logps_chosen,   r.logps_rejected,
                                             r.chosen,     r.rejected};
    for (int i = 0; i < 1 + kPreferenceSums; ++i) of[i] += all[i];
  }

  // Of all threads of the block, to what is there.
  __device__ __forceinline__ void AddBlock(double* loss, PreferenceSums* reports) {
    __shared__ double shared[kWarp];
    static_assert(sizeof(PreferenceSums) == kPreferenceSums * sizeof(double));
    auto* const to = reinterpret_cast<double*>(reports);
    for (int i = 0; i < 1 + kPreferenceSums; ++i) {
      const double total = BlockSum(of[i], shared);
      if (threadIdx.x == 0) (i == 0 ? *loss : to[i - 1]) += total;
    }
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_DOCUMENT_SUMS_CUH_
