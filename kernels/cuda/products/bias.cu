// dbias[j] += sum over rows of dy[., j].
//
// Two stages. First every block sums a chunk of rows over a strip of 32 vectors: a warp per row,
// kUnroll rows in flight, then the warps' sums in shared memory in warp order. Then the chunks'
// sums are added in chunk order, split over 8 warps. sizeof(T) bytes per element, and
// 8 / kChunkRows of an element for the chunks. The order depends on the extents alone: bitwise
// deterministic.
#include "kernels/products/bias.h"

#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * cuda::kWarp;
constexpr int kUnroll = 4;
constexpr int64_t kChunkRows = 256;
constexpr int64_t kMaxChunks = 1024;

int64_t ChunkRows(int64_t rows) { return std::max(kChunkRows, cuda::CeilDiv(rows, kMaxChunks)); }

// partial[chunk, j] = sum of the rows of the chunk. Block (x, y): strip x, chunk y.
template <typename V>
__global__ void __launch_bounds__(kThreads)
    BiasBackwardChunkSumsKernel(int64_t rows, int64_t columns, int64_t chunk_rows,
                                const typename V::Element* dy, int64_t ldy, float* partial) {
  __shared__ float shared[kWarps][cuda::kWarp * V::kSize];
  cuda::LetNextStart();
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int64_t column = (int64_t{blockIdx.x} * cuda::kWarp + lane) * V::kSize;
  const int64_t begin = blockIdx.y * chunk_rows, end = min(begin + chunk_rows, rows);
  float sums[V::kSize] = {};
  for (int64_t row = begin + warp; row < end && column < columns; row += kWarps * kUnroll) {
    typename V::Raw raw[kUnroll] = {};
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int64_t at = row + k * kWarps;
      if (at < end) raw[k] = V::FetchStreaming(dy + at * ldy + column);
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      V x;
      x.Unpack(raw[k]);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) sums[i] += x.value[i];
    }
  }
  cuda::SumOverWarps(sums, shared);
  if (warp != 0 || column >= columns) return;
#pragma unroll
  for (int i = 0; i < V::kSize; ++i) partial[blockIdx.y * columns + column + i] = sums[i];
}

// dbias[j] += sum of partial[., j]. Warp w adds chunks w, w + 8, ...
template <typename G>
__global__ void __launch_bounds__(kThreads)
    BiasBackwardAddChunksKernel(int64_t chunks, int64_t columns, const float* partial, G* dbias) {
  __shared__ float shared[kWarps][cuda::kWarp];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int64_t column = int64_t{blockIdx.x} * cuda::kWarp + lane;
  float sums[1] = {};
  cuda::WaitForPrevious();
  if (column < columns) {
#pragma unroll 8
    for (int64_t chunk = warp; chunk < chunks; chunk += kWarps) {
      sums[0] += partial[chunk * columns + column];
    }
  }
  cuda::SumOverWarps(sums, shared);
  if (warp != 0 || column >= columns) return;
  dbias[column] = cuda::FromFloat<G>(cuda::ToFloat(dbias[column]) + sums[0]);
}

}  // namespace

bool BiasSupports(const BiasSpec& spec) { return true; }

int64_t BiasBackwardWorkspaceBytes(const BiasSpec& spec, int64_t rows, int64_t columns) {
  return 4 * cuda::CeilDiv(rows, ChunkRows(rows)) * columns;
}

void BiasBackward(const BiasBackwardArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "BiasBackward", "rows");
  cuda::RequireExtent(args.columns, "BiasBackward", "columns");
  cuda::RequireWorkspace(args.workspace,
                         BiasBackwardWorkspaceBytes(args.spec, args.rows, args.columns),
                         "BiasBackward");
  if (args.rows == 0 || args.columns == 0) return;
  const cudaStream_t handle = cuda::Handle(stream);
  const int64_t chunk_rows = ChunkRows(args.rows), chunks = cuda::CeilDiv(args.rows, chunk_rows);
  float* partial = static_cast<float*>(args.workspace.data);
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool aligned =
        cuda::Aligned<T>(args.dy, args.columns) && cuda::Aligned<T>(args.dy, args.ldy);
    cuda::ForVector<T>(aligned, [&](auto vector) {
      using V = decltype(vector);
      const int64_t strips = cuda::CeilDiv(args.columns, cuda::kWarp * V::kSize);
      const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(chunks));
      BiasBackwardChunkSumsKernel<V><<<grid, kThreads, 0, handle>>>(
          args.rows, args.columns, chunk_rows, static_cast<const T*>(args.dy), args.ldy, partial);
    });
  });
  cuda::ForDType(args.spec.grad_dtype, [&](auto zero) {
    using G = decltype(zero);
    const auto blocks = static_cast<unsigned>(cuda::CeilDiv(args.columns, cuda::kWarp));
    cuda::LaunchEarly(BiasBackwardAddChunksKernel<G>, blocks, kThreads, 0, handle, "BiasBackward",
                      chunks, args.columns, partial, static_cast<G*>(args.dbias));
  });
  cuda::CheckLaunch("BiasBackward");
}

}  // namespace coxswain::kernels
