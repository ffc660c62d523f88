// Sum of squares of a list of tensors, count of non-finite elements, and the decision to update.
//
// A block per chunk of kTensorChunk elements: squares are added in double per thread, then over the
// block; one block adds the partial results of all chunks. The square of a finite float32 does not
// overflow a double, so elements are counted only in a chunk whose sum is not finite. Every sum has
// an order fixed by the list: bitwise deterministic. sizeof(T) bytes read per element.
#include "kernels/optimizer/global_norm.h"

#include <limits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensor_list.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kSumThreads = 1024;

struct SquareSum {
  double total = 0.0;
  __device__ __forceinline__ void Add(float x) { total += static_cast<double>(x) * x; }
};

struct NonfiniteCount {
  double total = 0.0;
  __device__ __forceinline__ void Add(float x) { total += isfinite(x) ? 0.0 : 1.0; }
};

// Folds elements [0, count) over the threads of the block; the result is this thread's share.
template <typename Fold, typename T>
__device__ __forceinline__ double FoldElements(const T* data, int count) {
  using Vector = cuda::Vector<T>;
  Fold fold;
  int done = 0;
  if (reinterpret_cast<uintptr_t>(data) % 16 == 0) {
    done = count / Vector::kSize * Vector::kSize;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * Vector::kSize; i < done;
         i += kThreads * Vector::kSize) {
      Vector x;
      x.Load(data + i);
#pragma unroll
      for (int j = 0; j < Vector::kSize; ++j) fold.Add(x.value[j]);
    }
  }
  for (int i = done + static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    fold.Add(cuda::ToFloat(data[i]));
  }
  return fold.total;
}

template <typename T>
__device__ NormSums ChunkSums(const T* data, int count, double* shared) {
  const double squares = cuda::BlockSum(FoldElements<SquareSum>(data, count), shared);
  if (isfinite(squares)) return {squares, 0.0};
  return {squares, cuda::BlockSum(FoldElements<NonfiniteCount>(data, count), shared)};
}

__global__ void __launch_bounds__(kThreads)
    GlobalNormChunkKernel(const NormTensor* tensors, int64_t count, NormSums* partial) {
  __shared__ double shared[cuda::kWarp];
  const int64_t chunk = blockIdx.x;
  const NormTensor tensor = tensors[cuda::FindTensor(tensors, count, chunk)];
  const cuda::ChunkRange range(chunk - (tensor.first_chunk - tensors[0].first_chunk),
                               tensor.elements);
  const int elements = static_cast<int>(range.end - range.begin);
  const NormSums sums =
      tensor.dtype == DType::kFloat32
          ? ChunkSums(static_cast<const float*>(tensor.data) + range.begin, elements, shared)
          : ChunkSums(static_cast<const cuda::bf16*>(tensor.data) + range.begin, elements, shared);
  if (threadIdx.x == 0) partial[chunk] = sums;
}

__global__ void __launch_bounds__(kSumThreads)
    GlobalNormSumChunksKernel(const NormSums* partial, int64_t chunks, NormSums* sums) {
  __shared__ double shared[cuda::kWarp];
  NormSums mine;
  for (int64_t i = threadIdx.x; i < chunks; i += kSumThreads) {
    mine.sum_squares += partial[i].sum_squares;
    mine.nonfinite += partial[i].nonfinite;
  }
  mine.sum_squares = cuda::BlockSum(mine.sum_squares, shared);
  mine.nonfinite = cuda::BlockSum(mine.nonfinite, shared);
  if (threadIdx.x == 0) *sums = mine;
}

// A block per tensor.
__global__ void __launch_bounds__(kThreads) TensorNormsKernel(const TensorNormsArgs args) {
  __shared__ double shared[cuda::kWarp];
  const NormTensor tensor = args.tensors[blockIdx.x];
  const NormSums* partial = args.chunk_sums + (tensor.first_chunk - args.tensors[0].first_chunk);
  const int64_t chunks = (tensor.elements + kTensorChunk - 1) / kTensorChunk;
  NormSums mine;
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) {
    mine.sum_squares += partial[i].sum_squares;
    mine.nonfinite += partial[i].nonfinite;
  }
  mine.sum_squares = cuda::BlockSum(mine.sum_squares, shared);
  mine.nonfinite = cuda::BlockSum(mine.nonfinite, shared);
  if (threadIdx.x == 0) args.sums[blockIdx.x] = mine;
}

__global__ void DecideUpdateKernel(const DecideUpdateArgs args) {
  const double norm = sqrt(args.sums->sum_squares);
  const double factor = args.max_norm / (norm + 1e-6);
  *args.norm = norm;
  args.scalars->skip = isfinite(norm) ? 0 : 1;
  args.scalars->clip_factor = args.max_norm > 0.0 && factor < 1.0 ? factor : 1.0;
}

}  // namespace

bool GlobalNormSupports(DType dtype) { return true; }

int64_t GlobalNormWorkspaceBytes(int64_t chunks) {
  return chunks * static_cast<int64_t>(sizeof(NormSums));
}

void GlobalNorm(const GlobalNormArgs& args, Stream* stream) {
  cuda::RequireExtent(args.chunks, "GlobalNorm", "chunks");
  cuda::RequireWorkspace(args.workspace, GlobalNormWorkspaceBytes(args.chunks), "GlobalNorm");
  auto* partial = static_cast<NormSums*>(args.workspace.data);
  if (args.chunks > 0) {
    GlobalNormChunkKernel<<<static_cast<unsigned>(args.chunks), kThreads, 0,
                            cuda::Handle(stream)>>>(args.tensors, args.count, partial);
    cuda::CheckLaunch("GlobalNorm");
  }
  GlobalNormSumChunksKernel<<<1, kSumThreads, 0, cuda::Handle(stream)>>>(partial, args.chunks,
                                                                         args.sums);
  cuda::CheckLaunch("GlobalNorm");
}

void TensorNorms(const TensorNormsArgs& args, Stream* stream) {
  cuda::RequireExtent(args.count, "TensorNorms", "count");
  if (args.count == 0) return;
  TensorNormsKernel<<<static_cast<unsigned>(args.count), kThreads, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("TensorNorms");
}

void DecideUpdate(const DecideUpdateArgs& args, Stream* stream) {
  DecideUpdateKernel<<<1, 1, 0, cuda::Handle(stream)>>>(args);
  cuda::CheckLaunch("DecideUpdate");
}

}  // namespace coxswain::kernels
