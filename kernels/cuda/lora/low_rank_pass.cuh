// What a pass over X [T, N] and the sums behind it share.
#ifndef COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PASS_CUH_
#define COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PASS_CUH_

#include "kernels/cuda/lora/low_rank_plan.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

// P = scale X W and G += X^T H of one member, X [T, columns].
struct LowRankMember {
  const bf16* x = nullptr;
  const bf16* w = nullptr;  // [columns, R], or [R, columns] where only P is wanted
  const bf16* h = nullptr;  // [T, R]
  bf16* p = nullptr;        // [T, R]
  void* gradient = nullptr;
};

struct LowRankPass {
  int64_t rows = 0;
  int64_t ldx = 0, ldw = 0, ldh = 0, ldp = 0;
  int32_t rank = 0;    // R
  float scale = 1.0f;  // of P
  DType grad_dtype = DType::kFloat32;
  // Of G: element (column, rank) is at column column_stride + rank rank_stride.
  int64_t column_stride = 0, rank_stride = 0;
  float* sums = nullptr;  // partial sums, in the workspace
  LowRankMember member[kMaxLowRankMembers] = {};
  LowRankPlan plan = {};
};

enum class Sums { kColumns, kRows, kBoth };  // P, G, or both

// Plans and launches one pass and its second stage. False, with nothing launched, for a rank that
// no kernel is made for or a plan that fits neither its table nor the workspace of the products.
bool RunLowRankPass(Sums sums, const LowRankPass& pass, const LowRankProblem& problem,
                    const Workspace& workspace, Stream* stream);

// The second stage: partial sums of the slices in order, into P and G.
void SumColumns(const LowRankPass& pass, Stream* stream);
void SumRows(const LowRankPass& pass, Stream* stream);

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_LORA_LOW_RANK_PASS_CUH_
