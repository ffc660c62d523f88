// The workspace of lora_linear.h in order: of the products, g (backward), the dropped copy of x.
#ifndef COXSWAIN_KERNELS_CUDA_LORA_LORA_WORKSPACE_H_
#define COXSWAIN_KERNELS_CUDA_LORA_LORA_WORKSPACE_H_

#include "kernels/cuda/stream.h"
#include "kernels/lora/lora_linear.h"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::cuda {

inline int64_t DroppedBytes(const LoraLinearSpec& spec, int64_t rows) {
  if (spec.dropout_rate == 0.0f) return 0;
  return AlignUp(rows * spec.in_features * DTypeBytes(spec.dtype));
}
inline int64_t GradientBytes(const LoraLinearSpec& spec, int64_t rows) {
  return AlignUp(rows * spec.stacked_rank() * DTypeBytes(spec.dtype));
}

inline Workspace ProductScratch(const Workspace& workspace) {
  return {.data = workspace.data, .bytes = GemmWorkspaceBytes()};
}
inline void* BehindProducts(const Workspace& workspace, int64_t bytes) {
  return static_cast<char*>(workspace.data) + GemmWorkspaceBytes() + bytes;
}

// g [T, g r].
inline void* GradientOfH(const LoraLinearBackwardArgs& args) {
  return BehindProducts(args.workspace, 0);
}

inline void* DroppedX(const LoraLinearForwardArgs& args) {
  return BehindProducts(args.workspace, 0);
}
inline void* DroppedX(const LoraLinearBackwardArgs& args) {
  return BehindProducts(args.workspace, GradientBytes(args.spec, args.rows));
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LORA_LORA_WORKSPACE_H_
