// Norm of all gradients together, and what the optimizer does with it.
#ifndef COXSWAIN_KERNELS_OPTIMIZER_GLOBAL_NORM_H_
#define COXSWAIN_KERNELS_OPTIMIZER_GLOBAL_NORM_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/tensor_records.h"

namespace coxswain::kernels {

bool GlobalNormSupports(DType dtype);

int64_t GlobalNormWorkspaceBytes(int64_t chunks);

// Squares are added in double, in fixed blocks in table order: the bits depend on the list only.
// The workspace then holds the NormSums of each chunk, from its start.
struct GlobalNormArgs {
  const NormTensor* tensors = nullptr;  // [count] of a list in device memory, not always its start
  int64_t count = 0;
  int64_t chunks = 0;        // of these tensors
  NormSums* sums = nullptr;  // overwritten, device memory
  Workspace workspace = {};
};
void GlobalNorm(const GlobalNormArgs& args, Stream* stream);

// The sums of each tensor of a list, from what GlobalNorm left of its chunks: no element is read
// again. Chunks are added in an order fixed by their number.
struct TensorNormsArgs {
  const NormTensor* tensors = nullptr;  // [count], as GlobalNorm got them
  int64_t count = 0;
  const NormSums* chunk_sums = nullptr;  // GlobalNorm's workspace
  NormSums* sums = nullptr;              // [count], overwritten, device memory
};
void TensorNorms(const TensorNormsArgs& args, Stream* stream);

// Decides the update from the sums of all ranks. norm = sqrt(sum_squares);
// clip_factor = min(1, max_norm / (norm + 1e-6)), 1 when max_norm is 0; skip = norm not finite.
// Source: torch.nn.utils.clip_grad_norm_.
struct DecideUpdateArgs {
  const NormSums* sums = nullptr;
  double max_norm = 0.0;
  OptimizerScalars* scalars = nullptr;  // clip_factor and skip are written
  double* norm = nullptr;               // before clipping
};
void DecideUpdate(const DecideUpdateArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_OPTIMIZER_GLOBAL_NORM_H_
