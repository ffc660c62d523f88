// Losses of documents (kernels/loss/document_loss.h has the formulas).
//
// Sums: a block per document; a thread adds every 256th row in double, then the block its threads.
// Loss: one block; a thread takes every 256th pair or record, then the block adds its threads.
// Weights: a block per document. Each order is fixed by the extents alone: bitwise deterministic.
// 4 bytes a row to sum, 4 to write: beside the head's product none of it shows.
#include "kernels/loss/document_loss.h"

#include "kernels/cuda/loss/document_sums.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/loss/document_terms.h"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ double MinusSum(const float* nll, int begin, int end, double* shared) {
  double sum = 0.0;
  for (int row = begin + static_cast<int>(threadIdx.x); row < end; row += kThreads) sum -= nll[row];
  return cuda::BlockSum(sum, shared);
}

__global__ void __launch_bounds__(kThreads) SumDocumentsKernel(const SumDocumentsArgs args) {
  __shared__ double shared[cuda::kWarp];
  const DocumentRows rows = args.rows[blockIdx.x];
  DocumentSums sums;
  if (rows.begin >= 0) {
    sums.scored = MinusSum(args.nll, rows.scored, rows.end, shared);
    sums.all = sums.scored + MinusSum(args.nll, rows.begin, rows.scored, shared);
  }
  if (threadIdx.x == 0) args.sums[blockIdx.x] = sums;
}

__global__ void __launch_bounds__(kThreads) DocumentLossKernel(const DocumentLossArgs args) {
  const int step = args.spec.pairs ? 2 : 1;
  cuda::UnitSums sums;
  for (int64_t unit = threadIdx.x; step * unit < args.documents; unit += kThreads) {
    const int64_t first = step * unit;
    if (args.rows[first].begin < 0) continue;
    const UnitValue value = args.spec.pairs ? PairValue(args, unit) : RecordValue(args, unit);
    args.coefficients[first] = value.chosen;
    if (args.spec.pairs) args.coefficients[first + 1] = value.rejected;
    sums.Add(value.loss, value.report);
  }
  sums.AddBlock(args.loss, args.reports);
}

__global__ void __launch_bounds__(kThreads) DocumentWeightsKernel(const DocumentLossArgs args) {
  const int64_t document = blockIdx.x;
  const DocumentRows rows = args.rows[document];
  if (rows.begin < 0) return;
  const bool in_nll = args.spec.pairs && document % 2 == 0;
  const double coefficient = args.coefficients[document], ratio = args.scalars->nll_ratio;
  const double nll[2] = {in_nll ? NllWeight(args.spec, ratio, false) : 0.0,
                         in_nll ? NllWeight(args.spec, ratio, true) : 0.0};
  for (int row = rows.begin + static_cast<int>(threadIdx.x); row < rows.end; row += kThreads) {
    const bool scored = row >= rows.scored;
    args.weights[row] = static_cast<float>(nll[scored] + (scored ? coefficient : 0.0));
  }
}

}  // namespace

void SumDocuments(const SumDocumentsArgs& args, Stream* stream) {
  cuda::RequireExtent(args.documents, "SumDocuments", "documents");
  if (args.documents == 0) return;
  SumDocumentsKernel<<<static_cast<unsigned>(args.documents), kThreads, 0, cuda::Handle(stream)>>>(
      args);
  cuda::CheckLaunch("SumDocuments");
}

void DocumentLoss(const DocumentLossArgs& args, Stream* stream) {
  cuda::RequireSupported(DocumentLossSupports(args.spec), "DocumentLoss");
  cuda::RequireExtent(args.documents, "DocumentLoss", "documents");
  if (args.documents == 0) return;
  DocumentLossKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("DocumentLoss");
  if (args.weights == nullptr) return;
  DocumentWeightsKernel<<<static_cast<unsigned>(args.documents), kThreads, 0,
                          cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("DocumentWeights");
}

}  // namespace coxswain::kernels
