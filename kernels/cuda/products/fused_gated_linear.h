// The bodies of gated_linear.h in one launch, for bfloat16 on compute capability 9.0.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_LINEAR_H_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_LINEAR_H_

#include "kernels/products/gated_linear.h"

namespace coxswain::kernels::cuda {

// bfloat16, compute capability 9.0, H and I multiples of 8, addresses aligned to 16 bytes.
bool FusedGatedLinearRuns(const GatedLinearForwardArgs& args);
bool FusedGatedLinearRuns(const GatedLinearBackwardArgs& args);

// What adapters add to the sums: h [B_gate; B_up]^T by halves of gate_up's columns.
struct GatedForwardAdapters {
  const void* h = nullptr;                // [T, 2 r]: of gate, of up
  const void* b[2] = {nullptr, nullptr};  // [I, r]
  int64_t rank = 0;                       // r, a multiple of 8
};
// g A.
struct GatedBackwardAdapter {
  const void* g = nullptr;  // [T, r]
  const void* a = nullptr;  // [r, I]
  int64_t rank = 0;         // r, a multiple of 8
};

// Without adapters where null. No workspace; of the arguments that gated_linear.h names, y of a
// backward that does not want it is left as it is.
void FusedGatedLinearForward(const GatedLinearForwardArgs& args,
                             const GatedForwardAdapters* adapters, Stream* stream);
void FusedGatedLinearBackward(const GatedLinearBackwardArgs& args,
                              const GatedBackwardAdapter* adapter, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_FUSED_GATED_LINEAR_H_
