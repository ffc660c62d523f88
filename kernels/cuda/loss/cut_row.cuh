// What becomes of a row of cut_cross_entropy.h whose logits have been seen in parts.
#ifndef COXSWAIN_KERNELS_CUDA_LOSS_CUT_ROW_CUH_
#define COXSWAIN_KERNELS_CUDA_LOSS_CUT_ROW_CUH_

#include "kernels/cuda/loss/cross_entropy_row.cuh"
#include "kernels/loss/cut_panels.h"

namespace coxswain::kernels::cuda::cut {

using cross_entropy::Partial;

// The first maximum of some logits, NaN passed over; column INT_MAX: of none.
struct Largest {
  float logit;
  int column;
};
__device__ __forceinline__ Largest NoLogit() { return {cross_entropy::kLowest, 0x7fffffff}; }
// a is no NaN.
__device__ __forceinline__ Largest LargerOf(const Largest& a, const Largest& b) {
  const bool second = b.logit > a.logit || (b.logit == a.logit && b.column < a.column);
  return second ? b : a;
}

// Where a row's results go. `loss` names no logits.
struct RowResults {
  CrossEntropyArgs loss;
  float* statistics;  // [N, 2]: reference and sum of exponentials, as in cross_entropy_row.cuh
  float* hits;        // null: not wanted
};

inline CrossEntropyArgs LossOf(const CutCrossEntropySpec& spec, int64_t rows,
                               const int32_t* targets) {
  CrossEntropyArgs loss;
  loss.spec = {.dtype = spec.dtype,
               .vocab = spec.vocab,
               .label_smoothing = spec.label_smoothing,
               .z_loss = spec.z_loss,
               .softcap = spec.softcap};
  loss.rows = rows;
  loss.targets = targets;
  return loss;
}
inline RowResults ResultsOf(const CutCrossEntropyForwardArgs& args) {
  RowResults results{.loss = LossOf(args.spec, args.rows, args.targets),
                     .statistics = args.statistics,
                     .hits = args.hits};
  results.loss.loss = args.loss;
  results.loss.nll = args.nll;
  return results;
}
inline CrossEntropyArgs GradientOf(const CutCrossEntropyBackwardArgs& args) {
  CrossEntropyArgs loss = LossOf(args.spec, args.rows, args.targets);
  loss.gradient_scale = args.gradient_scale;
  loss.row_weights = args.row_weights;
  return loss;
}

// By one thread. z_target is not looked at where the target is none.
__device__ __forceinline__ void FinishRow(const RowResults& results, int64_t row,
                                          const Partial& sums, float z_target,
                                          const Largest& largest) {
  const int32_t target = results.loss.targets[row];
  float2* const statistics = reinterpret_cast<float2*>(results.statistics) + row;
  if (target == kIgnoreTarget) {
    cross_entropy::WriteIgnored(results.loss, row);
    *statistics = {0.0f, 0.0f};
    if (results.hits != nullptr) results.hits[row] = 0.0f;
    return;
  }
  *statistics = {sums.reference, sums.exponentials};
  const bool within = cross_entropy::InVocabulary(results.loss, target);
  cross_entropy::WriteLosses(results.loss, row, sums, within ? z_target : nanf(""));
  if (results.hits == nullptr) return;
  const bool hit = largest.column == target && !isnan(sums.exponentials);
  results.hits[row] = hit ? 1.0f : 0.0f;
}

// The gradient of a row whose statistics are known.
__device__ __forceinline__ cross_entropy::Gradient GradientOfRow(const CrossEntropyArgs& loss,
                                                                 const float* statistics,
                                                                 int64_t row) {
  const float2 of_row = reinterpret_cast<const float2*>(statistics)[row];
  cross_entropy::Gradient gradient(loss);
  gradient.SetWeight(loss, row);
  gradient.SetRow({of_row.x, of_row.y, 0.0f});
  return gradient;
}

}  // namespace coxswain::kernels::cuda::cut

#endif  // COXSWAIN_KERNELS_CUDA_LOSS_CUT_ROW_CUH_
