// Losses of policies (kernels/loss/policy_loss.h has the formulas).
//
// Documents: a block each. A thread takes every 256th row in double, then the block adds its
// threads; where the ratio is of documents, once more before for its logarithm. The rows are read
// again for the weights, whose terms are computed again. Sums: one block; a thread takes every
// 256th document, then the block adds its threads. Each order is fixed by the extents alone:
// bitwise deterministic. At most 32 bytes read and 4 written a row: beside the head's product none
// of it shows.
#include "kernels/loss/policy_loss.h"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/loss/policy_terms.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

// The member-wise sum over the block, in every thread.
__device__ __forceinline__ PolicyPart BlockSumOf(const PolicyPart& part, double* shared) {
  static_assert(sizeof(PolicyPart) == kPolicyParts * sizeof(double));
  return {cuda::BlockSum(part.loss, shared), cuda::BlockSum(part.slope, shared),
          cuda::BlockSum(part.low, shared),  cuda::BlockSum(part.high, shared),
          cuda::BlockSum(part.kl, shared),   cuda::BlockSum(part.ratio, shared)};
}

__device__ __forceinline__ double BlockMaxOf(double x, double* shared) {
#pragma unroll
  for (int offset = cuda::kWarp / 2; offset > 0; offset /= 2) {
    x = fmax(x, __shfl_xor_sync(~0u, x, offset));
  }
  if (threadIdx.x % cuda::kWarp == 0) shared[threadIdx.x / cuda::kWarp] = x;
  __syncthreads();
  double largest = shared[0];
  for (int warp = 1; warp < kThreads / cuda::kWarp; ++warp) largest = fmax(largest, shared[warp]);
  __syncthreads();
  return largest;
}

__global__ void __launch_bounds__(kThreads) PolicyDocumentsKernel(const PolicyLossArgs args) {
  __shared__ double shared[cuda::kWarp];
  const DocumentRows rows = args.rows[blockIdx.x];
  if (rows.begin < 0) return;
  const double count = rows.end - rows.scored;
  const int thread = static_cast<int>(threadIdx.x), first = rows.scored + thread;
  double mean = 0.0;
  if (args.spec.sequence_ratio) {
    for (int row = first; row < rows.end; row += kThreads) mean += LogRatioOf(args, row);
    mean = cuda::BlockSum(mean, shared) / count;
  }
  PolicyPart part;
  for (int row = first; row < rows.end; row += kThreads) {
    AddRow(PolicyValueAt(args, row, mean), &part);
  }
  part = BlockSumOf(part, shared);
  if (threadIdx.x == 0) args.parts[blockIdx.x] = part;
  if (args.weights == nullptr) return;
  for (int row = rows.begin + thread; row < rows.scored; row += kThreads) args.weights[row] = 0.0f;
  for (int row = first; row < rows.end; row += kThreads) {
    args.weights[row] = PolicyWeight(args.spec, PolicyValueAt(args, row, mean), part.slope, count);
  }
}

__global__ void __launch_bounds__(kThreads) PolicySumsKernel(const PolicyLossArgs args) {
  __shared__ double shared[cuda::kWarp];
  double loss = 0.0;
  PolicySums sums;
  for (int64_t i = threadIdx.x; i < args.documents; i += kThreads) {
    const DocumentRows rows = args.rows[i];
    if (rows.begin < 0 || rows.scored >= rows.end) continue;
    const double count = rows.end - rows.scored;
    loss += args.parts[i].loss * RowFactor(args.spec, count);
    AddReport(PolicyReport(args.spec, args.parts[i], count), &sums);
  }
  loss = cuda::BlockSum(loss, shared);
  const PolicySums total = {
      cuda::BlockSum(sums.clipped_low, shared), cuda::BlockSum(sums.clipped_high, shared),
      cuda::BlockSum(sums.clippable, shared),   cuda::BlockSum(sums.kl, shared),
      cuda::BlockSum(sums.ratio, shared),       cuda::BlockSum(sums.rows, shared),
      BlockMaxOf(sums.high_max, shared),        BlockMaxOf(sums.not_low_max, shared)};
  if (threadIdx.x != 0) return;
  *args.loss += loss;
  AddReport(total, args.reports);
}

}  // namespace

void PolicyLoss(const PolicyLossArgs& args, Stream* stream) {
  cuda::RequireSupported(
      PolicyLossSupports(args.spec) && (args.spec.kl_weight == 0 || args.references != nullptr),
      "PolicyLoss");
  cuda::RequireExtent(args.documents, "PolicyLoss", "documents");
  if (args.documents == 0) return;
  PolicyDocumentsKernel<<<static_cast<unsigned>(args.documents), kThreads, 0,
                          cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("PolicyDocuments");
  PolicySumsKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("PolicySums");
}

}  // namespace coxswain::kernels
