// Rows by index: out[i] = in[index[i]] (zeros for -1), and out[index[i]] += in[i].
//
// One thread takes kVectors vectors of the rows laid end to end, kThreads apart, and fetches all
// of them before it stores one. Bytes per element: 2 sizeof(T) to gather, 3 sizeof(T) to
// scatter-add; 4 more per row for the index. The indices are all different, so every element has
// one writer: bitwise deterministic.
#include "kernels/tensors/rows.h"

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVectors = 4;

// Where a vector of the N rows lies in the tall matrix, in vectors; -1: no row.
__device__ __forceinline__ int64_t TallVector(uint32_t vector, uint32_t row_vectors,
                                              const int32_t* index) {
  const uint32_t row = vector / row_vectors;
  const int64_t chosen = index[row];
  return chosen < 0 ? -1 : chosen * row_vectors + (vector - row * row_vectors);
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    GatherRowsKernel(uint32_t count, uint32_t row_vectors, const int32_t* index,
                     const typename V::Element* in, typename V::Element* out) {
  const uint32_t first = blockIdx.x * (kThreads * kVectors) + threadIdx.x;
  typename V::Raw raw[kVectors] = {};  // zero bits are zeros in either type
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const uint32_t v = first + k * kThreads;
    if (v >= count) continue;
    const int64_t tall = TallVector(v, row_vectors, index);
    if (tall >= 0) raw[k] = V::Fetch(in + tall * V::kSize);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const uint32_t v = first + k * kThreads;
    if (v < count) *reinterpret_cast<typename V::Raw*>(out + int64_t{v} * V::kSize) = raw[k];
  }
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    ScatterAddRowsKernel(uint32_t count, uint32_t row_vectors, const int32_t* index,
                         const typename V::Element* in, typename V::Element* out) {
  const uint32_t first = blockIdx.x * (kThreads * kVectors) + threadIdx.x;
  typename V::Raw added[kVectors] = {}, held[kVectors] = {};
  int64_t tall[kVectors];
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const uint32_t v = first + k * kThreads;
    tall[k] = v < count ? TallVector(v, row_vectors, index) : -1;
    if (tall[k] < 0) continue;
    added[k] = V::FetchStreaming(in + int64_t{v} * V::kSize);
    held[k] = V::Fetch(out + tall[k] * V::kSize);
  }
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    if (tall[k] < 0) continue;
    V x, y;
    x.Unpack(added[k]);
    y.Unpack(held[k]);
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) y.value[i] += x.value[i];
    y.Store(out + tall[k] * V::kSize);
  }
}

// Calls launch(V{}, first_row, vectors, row_vectors, blocks) for pieces of the N rows whose
// vectors 32 bits count.
template <typename Launch>
void ForPieces(const RowGatherArgs& args, const Launch& launch) {
  const int64_t columns = args.spec.columns;
  cuda::ForVectorOf(args.spec.dtype, columns, {args.in, args.out}, [&](auto vector) {
    const int64_t row_vectors = columns / vector.kSize;
    const int64_t piece_rows = std::max<int64_t>(1, (int64_t{1} << 31) / row_vectors);
    for (int64_t first = 0; first < args.rows; first += piece_rows) {
      const int64_t vectors = std::min(piece_rows, args.rows - first) * row_vectors;
      launch(vector, first, static_cast<uint32_t>(vectors), static_cast<uint32_t>(row_vectors),
             static_cast<unsigned>(cuda::CeilDiv(vectors, kThreads * kVectors)));
    }
  });
}

}  // namespace

bool RowGatherSupports(const RowGatherSpec& spec) { return spec.columns > 0; }

void GatherRows(const RowGatherArgs& args, Stream* stream) {
  cuda::RequireSupported(RowGatherSupports(args.spec), "GatherRows");
  cuda::RequireExtent(args.rows, "GatherRows", "rows");
  ForPieces(args, [&](auto vector, int64_t first, uint32_t vectors, uint32_t row_vectors,
                      unsigned blocks) {
    using V = decltype(vector);
    using T = typename V::Element;
    GatherRowsKernel<V><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
        vectors, row_vectors, args.index + first, static_cast<const T*>(args.in),
        static_cast<T*>(args.out) + first * args.spec.columns);
  });
  cuda::CheckLaunch("GatherRows");
}

void ScatterAddRows(const RowGatherArgs& args, Stream* stream) {
  cuda::RequireSupported(RowGatherSupports(args.spec), "ScatterAddRows");
  cuda::RequireExtent(args.rows, "ScatterAddRows", "rows");
  ForPieces(args, [&](auto vector, int64_t first, uint32_t vectors, uint32_t row_vectors,
                      unsigned blocks) {
    using V = decltype(vector);
    using T = typename V::Element;
    ScatterAddRowsKernel<V><<<blocks, kThreads, 0, cuda::Handle(stream)>>>(
        vectors, row_vectors, args.index + first,
        static_cast<const T*>(args.in) + first * args.spec.columns, static_cast<T*>(args.out));
  });
  cuda::CheckLaunch("ScatterAddRows");
}

}  // namespace coxswain::kernels
