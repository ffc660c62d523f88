// DoRA: row norms of W + s B A, rows of u scaled by m / n, and the gradients of both.
//
// Norms: two products of rank r by the library in float32, then a warp per row. Once per update:
// reads W, sizeof(T) bytes per element, and W A^T.
// Forward: elementwise over 16-byte vectors, 2 sizeof(T) bytes per element.
// Backward: a block takes a chunk of rows and a strip of 32 vectors, a warp per row; du replaces dy
// on the way and the products dy u are summed, first in the warp, then in warp order, then over the
// chunks in a fixed order. 3 sizeof(T) bytes per element. Bitwise deterministic.
#include "kernels/lora/dora.h"

#include <algorithm>

#include "kernels/cuda/partial_sums.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/products/gemm.h"

namespace coxswain::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * cuda::kWarp;
constexpr int kUnroll = 2;
constexpr int64_t kChunkRows = 256;

int64_t LargestMember(const LoraLinearSpec& spec) {
  int64_t largest = 0;
  for (const LoraMember& member : spec.members) largest = std::max(largest, member.out_features);
  return largest;
}

unsigned Blocks(int64_t count, int64_t per_block) {
  return static_cast<unsigned>(cuda::CeilDiv(count, per_block));
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    DoraRowSquaresKernel(int64_t columns, const typename V::Element* w, float* squares) {
  __shared__ float shared[cuda::kWarp];
  const typename V::Element* row = w + int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int64_t k = int64_t{threadIdx.x} * V::kSize; k < columns; k += kThreads * V::kSize) {
    V x;
    x.Load(row + k);
    float squares_of_vector = 0.0f;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) squares_of_vector += x.value[i] * x.value[i];
    sum += squares_of_vector;
  }
  sum = cuda::BlockSum(sum, shared);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    DoraFillOnesKernel(int64_t count, float* norm, float* factor) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  norm[i] = 1.0f;
  factor[i] = 1.0f;
}

// One adapted linear: pointers at its first row.
template <typename T>
struct MemberRows {
  int64_t rows, rank;
  float scale;
  const T* b;              // [rows, rank]
  const T* magnitude;      // [rows]
  const float* projected;  // W A^T [rows, rank]
  const float* gram;       // A A^T [rank, rank]
  const float* squares;    // [rows]
  float* norm;             // [rows]
  float* factor;           // [rows]
};

// A warp per row.
template <typename T>
__global__ void __launch_bounds__(kThreads) DoraFactorsKernel(MemberRows<T> m) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / cuda::kWarp;
  if (row >= m.rows) return;
  const T* b = m.b + row * m.rank;
  float cross = 0.0f, own = 0.0f;
  for (int64_t k = threadIdx.x % cuda::kWarp; k < m.rank; k += cuda::kWarp) {
    const float b_k = cuda::ToFloat(b[k]);
    float product = 0.0f;
    for (int64_t l = 0; l < m.rank; ++l) product += m.gram[l * m.rank + k] * cuda::ToFloat(b[l]);
    cross += b_k * m.projected[row * m.rank + k];
    own += b_k * product;
  }
  cross = cuda::WarpSum(cross);
  own = cuda::WarpSum(own);
  if (threadIdx.x % cuda::kWarp != 0) return;
  const float square = m.squares[row] + m.scale * (2.0f * cross + m.scale * own);
  const float norm = sqrtf(square < 0.0f ? 0.0f : square);
  m.norm[row] = norm;
  m.factor[row] = cuda::ToFloat(m.magnitude[row]) / norm;
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    DoraForwardKernel(int64_t count, int64_t columns, const typename V::Element* u,
                      const float* factor, const typename V::Element* bias,
                      typename V::Element* y) {
  const int64_t at = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * V::kSize;
  if (at >= count) return;
  const int64_t column = at % columns;
  V x, added;
  x.LoadStreaming(u + at);
  if (bias != nullptr) added.Load(bias + column);
#pragma unroll
  for (int i = 0; i < V::kSize; ++i) {
    const float scaled = x.value[i] * factor[column + i];
    x.value[i] = bias != nullptr ? scaled + added.value[i] : scaled;
  }
  x.Store(y + at);
}

// Pointers at the member's first column.
template <typename T>
struct MemberColumns {
  int64_t rows, columns, ld, chunk_rows;
  const T* u;
  T* dy;
  const float* norm;
  const float* factor;
  float* partial;  // [chunks, columns]
};

// partial[chunk, j] = sum over the rows of the chunk of dy u / n_j; dy becomes du.
template <typename V>
__global__ void __launch_bounds__(kThreads)
    DoraBackwardKernel(const MemberColumns<typename V::Element> m) {
  __shared__ float shared[kWarps][cuda::kWarp * V::kSize];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int64_t column = (int64_t{blockIdx.x} * cuda::kWarp + lane) * V::kSize;
  const int64_t begin = blockIdx.y * m.chunk_rows, end = min(begin + m.chunk_rows, m.rows);
  const bool inside = column < m.columns;
  float sums[V::kSize] = {}, factor[V::kSize];
#pragma unroll
  for (int i = 0; i < V::kSize; ++i) factor[i] = inside ? m.factor[column + i] : 0.0f;
  for (int64_t row = begin + warp; row < end && inside; row += kWarps * kUnroll) {
    typename V::Raw raw_u[kUnroll] = {}, raw_dy[kUnroll] = {};
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      const int64_t at = (row + k * kWarps) * m.ld + column;
      if (row + k * kWarps >= end) continue;
      raw_u[k] = V::FetchStreaming(m.u + at);
      raw_dy[k] = V::Fetch(m.dy + at);
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      if (row + k * kWarps >= end) continue;
      V u, dy;
      u.Unpack(raw_u[k]);
      dy.Unpack(raw_dy[k]);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        sums[i] += dy.value[i] * u.value[i];
        dy.value[i] *= factor[i];
      }
      dy.Store(m.dy + (row + k * kWarps) * m.ld + column);
    }
  }
  cuda::SumOverWarps(sums, shared);
  if (warp != 0 || !inside) return;
#pragma unroll
  for (int i = 0; i < V::kSize; ++i) {
    m.partial[blockIdx.y * m.columns + column + i] = sums[i] / m.norm[column + i];
  }
}

// The workspace of DoraFactors in order: of the products, W A^T, A A^T.
struct FactorScratch {
  Workspace products;
  float* projected;
  float* gram;
};

FactorScratch Divide(const DoraFactorsArgs& args) {
  char* data = static_cast<char*>(args.workspace.data);
  char* projected = data + cuda::AlignUp(GemmWorkspaceBytes());
  char* gram = projected + cuda::AlignUp(4 * LargestMember(args.spec) * args.spec.rank);
  return {{.data = data, .bytes = GemmWorkspaceBytes()},
          reinterpret_cast<float*>(projected),
          reinterpret_cast<float*>(gram)};
}

// out [rows, r] = x A_j^T in float32, x [rows, K].
template <typename T>
void ProjectRows(const LoraLinearSpec& spec, const T* x, int64_t rows, const T* a,
                 const Workspace& scratch, float* out, Stream* stream) {
  Gemm({.spec = {.dtype = spec.dtype, .output_dtype = DType::kFloat32, .transpose_b = true},
        .m = rows,
        .n = spec.rank,
        .k = spec.in_features,
        .a = x,
        .lda = spec.in_features,
        .b = a,
        .ldb = spec.in_features,
        .c = out,
        .ldc = spec.rank,
        .workspace = scratch},
       stream);
}

template <typename T>
void MemberFactors(const DoraFactorsArgs& args, int64_t j, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const LoraMember& member = spec.members[static_cast<size_t>(j)];
  const int64_t offset = member.column_offset, rows = member.out_features;
  const FactorScratch scratch = Divide(args);
  const T* a = static_cast<const T*>(args.a) + j * spec.rank * spec.in_features;
  const T* w = static_cast<const T*>(args.w) + offset * spec.in_features;
  ProjectRows(spec, w, rows, a, scratch.products, scratch.projected, stream);
  ProjectRows(spec, a, spec.rank, a, scratch.products, scratch.gram, stream);
  DoraFactorsKernel<T><<<Blocks(rows, kWarps), kThreads, 0, cuda::Handle(stream)>>>(
      {rows, spec.rank, spec.scale, static_cast<const T*>(member.b),
       static_cast<const T*>(member.magnitude), scratch.projected, scratch.gram,
       args.squares + offset, args.norm + offset, args.factor + offset});
}

int64_t ChunkRows(int64_t rows) {
  return std::max(kChunkRows, cuda::CeilDiv(rows, cuda::kMaxPartials));
}

template <typename T>
void MemberBackward(const DoraBackwardArgs& args, const LoraMember& lora, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t offset = lora.column_offset, columns = lora.out_features;
  const int64_t chunk_rows = ChunkRows(args.rows), chunks = cuda::CeilDiv(args.rows, chunk_rows);
  const MemberColumns<T> member{args.rows,
                                columns,
                                spec.ldy,
                                chunk_rows,
                                static_cast<const T*>(args.u) + offset,
                                static_cast<T*>(args.dy) + offset,
                                args.norm + offset,
                                args.factor + offset,
                                static_cast<float*>(args.workspace.data)};
  const bool aligned = cuda::Aligned<T>(member.u, columns) &&
                       cuda::Aligned<T>(member.dy, columns) &&
                       cuda::Aligned<T>(member.dy, spec.ldy);
  cuda::ForVector<T>(aligned, [&](auto vector) {
    using V = decltype(vector);
    const dim3 grid(Blocks(columns, cuda::kWarp * V::kSize), static_cast<unsigned>(chunks));
    DoraBackwardKernel<V><<<grid, kThreads, 0, cuda::Handle(stream)>>>(member);
  });
  cuda::PartialSums sums;
  sums.partials = member.partial;
  sums.count = chunks;
  sums.columns = columns;
  sums.gradient[0] = lora.dmagnitude;
  cuda::AddPartials(sums, spec.grad_dtype, cuda::Handle(stream));
}

}  // namespace

bool DoraSupports(const LoraLinearSpec& spec) {
  return LoraLinearSupports(spec) && spec.dropout_rate == 0.0f;
}

void DoraRowSquares(const DoraRowSquaresArgs& args, Stream* stream) {
  cuda::RequireExtent(args.rows, "DoraRowSquares", "rows");
  cuda::RequireExtent(args.columns, "DoraRowSquares", "columns");
  if (args.rows == 0) return;
  cuda::ForVectorOf(args.dtype, args.columns, {args.w}, [&](auto vector) {
    using V = decltype(vector);
    DoraRowSquaresKernel<V>
        <<<static_cast<unsigned>(args.rows), kThreads, 0, cuda::Handle(stream)>>>(
            args.columns, static_cast<const typename V::Element*>(args.w), args.squares);
  });
  cuda::CheckLaunch("DoraRowSquares");
}

int64_t DoraFactorsWorkspaceBytes(const LoraLinearSpec& spec) {
  return cuda::AlignUp(GemmWorkspaceBytes()) + cuda::AlignUp(4 * LargestMember(spec) * spec.rank) +
         cuda::AlignUp(4 * spec.rank * spec.rank);
}

void DoraFactors(const DoraFactorsArgs& args, Stream* stream) {
  cuda::RequireSupported(DoraSupports(args.spec), "DoraFactors");
  cuda::RequireWorkspace(args.workspace, DoraFactorsWorkspaceBytes(args.spec), "DoraFactors");
  DoraFillOnesKernel<<<Blocks(args.spec.ldy, kThreads), kThreads, 0, cuda::Handle(stream)>>>(
      args.spec.ldy, args.norm, args.factor);
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    const auto members = static_cast<int64_t>(args.spec.members.size());
    for (int64_t j = 0; j < members; ++j) MemberFactors<decltype(zero)>(args, j, stream);
  });
  cuda::CheckLaunch("DoraFactors");
}

void DoraForward(const DoraForwardArgs& args, Stream* stream) {
  cuda::RequireSupported(DoraSupports(args.spec), "DoraForward");
  cuda::RequireExtent(args.rows, "DoraForward", "rows");
  if (args.rows == 0) return;
  const int64_t columns = args.spec.ldy, count = args.rows * columns;
  cuda::ForVectorOf(args.spec.dtype, columns, {args.u, args.y, args.bias}, [&](auto vector) {
    using V = decltype(vector);
    using T = typename V::Element;
    DoraForwardKernel<V><<<Blocks(count, kThreads * V::kSize), kThreads, 0, cuda::Handle(stream)>>>(
        count, columns, static_cast<const T*>(args.u), args.factor,
        static_cast<const T*>(args.bias), static_cast<T*>(args.y));
  });
  cuda::CheckLaunch("DoraForward");
}

int64_t DoraBackwardWorkspaceBytes(const LoraLinearSpec& spec, int64_t rows) {
  return 4 * cuda::CeilDiv(rows, ChunkRows(rows)) * LargestMember(spec);
}

void DoraBackward(const DoraBackwardArgs& args, Stream* stream) {
  cuda::RequireSupported(DoraSupports(args.spec), "DoraBackward");
  cuda::RequireExtent(args.rows, "DoraBackward", "rows");
  cuda::RequireWorkspace(args.workspace, DoraBackwardWorkspaceBytes(args.spec, args.rows),
                         "DoraBackward");
  if (args.rows == 0) return;
  cuda::ForDType(args.spec.dtype, [&](auto zero) {
    for (const LoraMember& member : args.spec.members) {
      MemberBackward<decltype(zero)>(args, member, stream);
    }
  });
  cuda::CheckLaunch("DoraBackward");
}

}  // namespace coxswain::kernels
