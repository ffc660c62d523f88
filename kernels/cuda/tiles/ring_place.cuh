// Where a thread is in a ring of stages whose barriers end one phase a round.
#ifndef COXSWAIN_KERNELS_CUDA_TILES_RING_PLACE_CUH_
#define COXSWAIN_KERNELS_CUDA_TILES_RING_PLACE_CUH_

namespace coxswain::kernels::cuda {

template <int kStages>
struct RingPlace {
  int stage = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_TILES_RING_PLACE_CUH_
