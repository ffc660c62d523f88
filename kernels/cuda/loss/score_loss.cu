// Losses of scores (kernels/loss/score_loss.h has the formulas).
//
// One block; a thread takes every 256th pair or document, its labels in order, then the block adds
// its threads: an order that the extents alone fix, bitwise deterministic.
#include "kernels/cuda/loss/document_sums.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/loss/score_loss.h"
#include "kernels/loss/score_terms.h"

namespace coxswain::kernels {

// The head of reward models and classifiers (kernels/loss/score_loss.h has the formulas).
//
// Forward: a block for a document and a label; a thread adds every 256th column in double, then
// the block its threads. Gradient of x: a block for a document, a thread for every 256th column,
// labels in order. Gradient of the weight: a thread for a column of a label, documents in order.
// Each order is fixed by the extents alone: bitwise deterministic. A document reads 2 H L elements
// and writes H: with a document every 500 tokens nothing beside the blocks.

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads) ScoresKernel(const ScoreHeadForwardArgs args) {
  __shared__ double shared[cuda::kWarp];
  const int64_t document = blockIdx.x, label = blockIdx.y, width = args.spec.width;
  const int64_t row = args.rows[document];
  double sum = 0.0;
  if (row >= 0) {
    const T* const x = static_cast<const T*>(args.x) + row * width;
    const T* const w = static_cast<const T*>(args.weight) + label * width;
    for (int64_t h = threadIdx.x; h < width; h += kThreads) {
      sum += static_cast<double>(cuda::ToFloat(x[h])) * cuda::ToFloat(w[h]);
    }
  }
  sum = cuda::BlockSum(sum, shared);
  if (threadIdx.x == 0) {
    args.scores[document * args.spec.labels + label] = static_cast<float>(sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) InputGradientKernel(const ScoreHeadBackwardArgs args) {
  const int64_t document = blockIdx.x, width = args.spec.width, labels = args.spec.labels;
  const int64_t row = args.rows[document];
  if (row < 0) return;
  const float* const d = args.dscores + document * labels;
  const T* const weight = static_cast<const T*>(args.weight);
  for (int64_t h = threadIdx.x; h < width; h += kThreads) {
    double sum = 0.0;
    for (int64_t l = 0; l < labels; ++l) {
      sum += static_cast<double>(d[l]) * cuda::ToFloat(weight[l * width + h]);
    }
    static_cast<T*>(args.dx)[row * width + h] =
        cuda::FromFloat<T>(static_cast<float>(sum * *args.scale));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) WeightGradientKernel(const ScoreHeadBackwardArgs args) {
  const int64_t h = int64_t{blockIdx.x} * kThreads + threadIdx.x, label = blockIdx.y;
  const int64_t width = args.spec.width, labels = args.spec.labels;
  if (h >= width) return;
  const T* const x = static_cast<const T*>(args.x);
  double sum = 0.0;
  for (int64_t i = 0; i < args.documents; ++i) {
    const int64_t row = args.rows[i];
    if (row < 0) continue;
    sum +=
        static_cast<double>(args.dscores[i * labels + label]) * cuda::ToFloat(x[row * width + h]);
  }
  float* const dw = args.dweight + label * width + h;
  *dw = static_cast<float>(sum * *args.scale) + (args.accumulate ? *dw : 0.0f);
}

template <typename T>
void LaunchBackward(const ScoreHeadBackwardArgs& args, cudaStream_t stream) {
  if (args.documents > 0) {
    InputGradientKernel<T><<<static_cast<unsigned>(args.documents), kThreads, 0, stream>>>(args);
    cuda::CheckLaunch("ScoreHeadBackward");
  }
  if (args.dweight == nullptr) return;
  const dim3 grid(static_cast<unsigned>((args.spec.width + kThreads - 1) / kThreads),
                  static_cast<unsigned>(args.spec.labels));
  WeightGradientKernel<T><<<grid, kThreads, 0, stream>>>(args);
  cuda::CheckLaunch("ScoreHeadBackward");
}

}  // namespace

bool ScoreHeadSupports(const ScoreHeadSpec& spec) {
  return spec.width > 0 && spec.labels > 0 && spec.labels < 65536;
}

void ScoreHeadForward(const ScoreHeadForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(ScoreHeadSupports(args.spec), "ScoreHead");
  cuda::RequireExtent(args.documents, "ScoreHead", "documents");
  if (args.documents == 0) return;
  const dim3 grid(static_cast<unsigned>(args.documents), static_cast<unsigned>(args.spec.labels));
  if (args.spec.dtype == DType::kFloat32) {
    ScoresKernel<float><<<grid, kThreads, 0, cuda::Handle(stream)>>>(args);
  } else {
    ScoresKernel<cuda::bf16><<<grid, kThreads, 0, cuda::Handle(stream)>>>(args);
  }
  cuda::CheckLaunch("ScoreHeadForward");
}

void ScoreHeadBackward(const ScoreHeadBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(ScoreHeadSupports(args.spec), "ScoreHead");
  cuda::RequireExtent(args.documents, "ScoreHead", "documents");
  if (args.spec.dtype == DType::kFloat32) {
    LaunchBackward<float>(args, cuda::Handle(stream));
  } else {
    LaunchBackward<cuda::bf16>(args, cuda::Handle(stream));
  }
}

namespace {

__global__ void __launch_bounds__(kThreads) ScoreLossKernel(const ScoreLossArgs args) {
  const int64_t step = DocumentsPerScore(args.spec);
  cuda::UnitSums sums;
  for (int64_t first = step * threadIdx.x; first < args.documents; first += step * kThreads) {
    if (args.rows[first] < 0) {
      ClearSlopes(args, first);
      continue;
    }
    const ScoreValue value = ValueOfScores(args, first);
    sums.Add(value.loss, value.report);
  }
  sums.AddBlock(args.loss, args.reports);
}

}  // namespace

void ScoreLoss(const ScoreLossArgs& args, Stream* stream) {
  cuda::RequireSupported(ScoreLossSupports(args.spec), "ScoreLoss");
  cuda::RequireExtent(args.documents, "ScoreLoss", "documents");
  if (args.documents == 0) return;
  ScoreLossKernel<<<1, kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("ScoreLoss");
}

}  // namespace coxswain::kernels
