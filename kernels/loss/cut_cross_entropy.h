// Cross-entropy of the logits z = a x W^T and its gradients, without a matrix of all logits. The
// losses and dz are those of cross_entropy.h; dx = a dz W, dW = a dz^T x. As a chunk of logits and
// its gradient are there, z and dz are rounded to the type of x; sums are float32.
//
// Forward goes over the vocabulary and leaves of each row what its softmax is normalised by;
// backward computes the logits again and turns them into dz, for a range of the vocabulary at a
// time: a panel of dz [rows, columns] lies in the workspace while the products with W and x are
// made of it. A larger workspace makes wider panels. CUDA on compute capability 9.0 with bfloat16
// keeps a tile of logits in registers and writes no logit to memory; where that kernel does not run
// (cuda/cut_product.h), the panel holds the logits first.
// Bits repeat with the spec, the rows and the bytes of the workspace.
// Source: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024.
#ifndef COXSWAIN_KERNELS_LOSS_CUT_CROSS_ENTROPY_H_
#define COXSWAIN_KERNELS_LOSS_CUT_CROSS_ENTROPY_H_

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/tensors/gradient_sum.h"

namespace coxswain::kernels {

struct CutCrossEntropySpec {
  DType dtype = DType::kFloat32;                  // x, W
  DType weight_gradient_dtype = DType::kFloat32;  // dW
  int64_t hidden = 0;                             // H
  int64_t vocab = 0;                              // V
  float logit_scale = 1.0f;                       // a, > 0
  float label_smoothing = 0.0f, z_loss = 0.0f, softcap = 0.0f;
};
bool CutCrossEntropySupports(const CutCrossEntropySpec& spec);
// The least that forward and backward need.
int64_t CutCrossEntropyWorkspaceBytes(const CutCrossEntropySpec& spec, int64_t rows);
// What makes panels wide enough: at most kCutCrossEntropyBytes where the least is below it, less
// where one panel holds everything.
int64_t CutCrossEntropyUsualBytes(const CutCrossEntropySpec& spec, int64_t rows);
inline constexpr int64_t kCutCrossEntropyBytes = int64_t{136} << 20;

struct CutCrossEntropyForwardArgs {
  CutCrossEntropySpec spec = {};
  int64_t rows = 0;                  // N; N V may exceed 2^31
  const void* x = nullptr;           // [N, H]
  const void* weight = nullptr;      // [V, H]
  const int32_t* targets = nullptr;  // [N], as in cross_entropy.h
  float* loss = nullptr;             // [N], the objective, unscaled
  float* nll = nullptr;              // [N], without smoothing and z-loss; null: not wanted
  // [N], 1 where the target is the first maximum of a row, else 0; null: not wanted. 0 where the
  // row's softmax is NaN.
  float* hits = nullptr;
  float* statistics = nullptr;  // [N, 2], for backward
  Workspace workspace = {};
};
void CutCrossEntropyForward(const CutCrossEntropyForwardArgs& args, Stream* stream);

struct CutCrossEntropyBackwardArgs {
  CutCrossEntropySpec spec = {};
  int64_t rows = 0;
  const void* x = nullptr;       // [N, H]
  const void* weight = nullptr;  // [V, H]
  const int32_t* targets = nullptr;
  const float* statistics = nullptr;      // [N, 2], of forward with these x, W and targets
  const float* gradient_scale = nullptr;  // one float in device memory
  const float* row_weights = nullptr;     // [N], multiply the gradient scale; null: all 1
  float* dx = nullptr;                    // [N, H], float32; null: not wanted
  void* dweight = nullptr;                // [V, H] of weight_gradient_dtype; null: W is frozen
  bool accumulate = false;                // dW is added to what is there
  // Of dW in bfloat16: each panel's product is a term of its rows, by SummedProduct in `term`.
  // Without, the product adds itself.
  GradientSum sum = {};
  Workspace term = {};
  Workspace workspace = {};
};
void CutCrossEntropyBackward(const CutCrossEntropyBackwardArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_LOSS_CUT_CROSS_ENTROPY_H_
