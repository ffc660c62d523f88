// Products of the rows of every expert on CUDA cores, for all experts in one launch.
//
// A block of 256 threads computes tiles of 64 x 64, 4 x 4 elements a thread, from 16 values of k at
// a time in shared memory: 2 loads of 16 bytes for 16 multiplications. Operands are read by every
// row or column of tiles, mostly from the L2 cache. Sums run over k in order, by fmaf: bitwise
// deterministic, and off by at most k u of the sum of the products' sizes.
#include "kernels/cuda/experts/plain_grouped_linear.h"

#include <algorithm>

#include "kernels/cuda/experts/segment_walk.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kSide = 64, kStep = 16, kOwn = 4;
constexpr int kThreads = kSide / kOwn * (kSide / kOwn);
constexpr int64_t kMaxGridExtent = 65535;

// Values of an operand, [kStep, kSide]; rows at multiples of 16 bytes, in other banks than the
// last.
struct Panel {
  alignas(16) float values[kStep][kSide + 4];
};

// A matrix of `rows` by `columns` values in rows that lie `stride` apart.
template <typename T>
struct Matrix {
  const T* data;
  int64_t rows, columns, stride;

  __device__ __forceinline__ float At(int64_t row, int64_t column) const {
    return row < rows && column < columns ? ToFloat(data[row * stride + column]) : 0.0f;
  }
};

// kAcross: k counts the rows of the matrix, else its columns.
template <bool kAcross, typename T>
__device__ __forceinline__ void Fill(Panel* panel, const Matrix<T>& from, int64_t first,
                                     int64_t k) {
#pragma unroll
  for (int n = 0; n < kSide * kStep / kThreads; ++n) {
    const int at = n * kThreads + static_cast<int>(threadIdx.x);
    const int i = kAcross ? at % kSide : at / kStep, l = kAcross ? at / kSide : at % kStep;
    panel->values[l][i] = kAcross ? from.At(k + l, first + i) : from.At(first + i, k + l);
  }
}

// sums[i][j]: row `row` + 4 (thread / 16) + i by column `column` + 4 (thread % 16) + j.
template <bool kFirstAcross, bool kAcross, typename T>
__device__ __forceinline__ void SumTile(const Matrix<T>& first, int64_t row,
                                        const Matrix<T>& second, int64_t column, int64_t depth,
                                        float (&sums)[kOwn][kOwn]) {
  __shared__ Panel rows, columns;
  const int i0 = threadIdx.x / (kSide / kOwn) * kOwn, j0 = threadIdx.x % (kSide / kOwn) * kOwn;
  for (int64_t k = 0; k < depth; k += kStep) {
    __syncthreads();
    Fill<kFirstAcross>(&rows, first, row, k);
    Fill<kAcross>(&columns, second, column, k);
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kStep; ++l) {
      Vector<float> a, b;
      a.Load(&rows.values[l][i0]);
      b.Load(&columns.values[l][j0]);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] = fmaf(a.value[i], b.value[j], sums[i][j]);
      }
    }
  }
}

// Calls put(row, column, sum) for the thread's elements of the tile.
template <typename Put>
__device__ __forceinline__ void ForOwn(int64_t row, int64_t column, const float (&sums)[kOwn][kOwn],
                                       const Put& put) {
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      put(row + threadIdx.x / (kSide / kOwn) * kOwn + i,
          column + threadIdx.x % (kSide / kOwn) * kOwn + j, sums[i][j]);
    }
  }
}

template <typename T>
struct RowProduct {
  const int32_t* offsets;
  int experts;
  int64_t rows, in, out;  // columns of the operand, of the result
  const T *operand, *weight, *bias;
  T* result;
  float scale;
  bool accumulate, zeros_behind;
};

struct RowTiles {
  __device__ __forceinline__ int operator()(int rows) const { return (rows + kSide - 1) / kSide; }
};

// Block (x, y): columns from kSide x on, tiles of rows y, y + gridDim.y, ... kTurned: dx.
template <bool kTurned, typename T>
__global__ void __launch_bounds__(kThreads) PlainGroupedRowsKernel(RowProduct<T> p) {
  const int64_t column = int64_t{blockIdx.x} * kSide;
  const int64_t weight_rows = kTurned ? p.in : p.out, weight_columns = kTurned ? p.out : p.in;
  for (SegmentWalk<RowTiles> walk(p.offsets, p.experts, static_cast<int>(blockIdx.y),
                                  static_cast<int>(gridDim.y), {});
       walk.Has(); walk.Next()) {
    const int64_t e = walk.segment(), row = walk.begin() + int64_t{walk.tile()} * kSide;
    const Matrix<T> operand{p.operand, walk.end(), p.in, p.in};
    const Matrix<T> weight{p.weight + e * weight_rows * weight_columns, weight_rows, weight_columns,
                           weight_columns};
    float sums[kOwn][kOwn] = {};
    SumTile<false, kTurned>(operand, row, weight, column, p.in, sums);
    ForOwn(row, column, sums, [&](int64_t i, int64_t j, float sum) {
      if (i >= walk.end() || j >= p.out) return;
      T* at = p.result + i * p.out + j;
      const float bias = p.bias == nullptr ? 0.0f : ToFloat(p.bias[e * p.out + j]);
      const float addend = p.accumulate ? ToFloat(*at) : bias;
      *at = FromFloat<T>(fmaf(p.scale, sum, addend));
    });
  }
  if (p.accumulate || !p.zeros_behind) return;
  const int64_t j = column + threadIdx.x;
  if (threadIdx.x >= kSide || j >= p.out) return;
  for (int64_t i = p.offsets[p.experts] + int64_t{blockIdx.y}; i < p.rows; i += gridDim.y) {
    p.result[i * p.out + j] = FromFloat<T>(0.0f);
  }
}

template <typename T, typename G>
struct WeightProduct {
  const int32_t* offsets;
  int experts;
  int64_t in, out;
  const T *dy, *x;
  G* dweight;
  float scale;
  bool accumulate;
};

// Block (x, y, z): columns and rows of dW from kSide x and kSide y on, of experts z, z +
// gridDim.z...
template <typename T, typename G>
__global__ void __launch_bounds__(kThreads) PlainGroupedWeightKernel(WeightProduct<T, G> p) {
  const int64_t column = int64_t{blockIdx.x} * kSide, row = int64_t{blockIdx.y} * kSide;
  for (int64_t e = blockIdx.z; e < p.experts; e += gridDim.z) {
    const int64_t begin = p.offsets[e], count = p.offsets[e + 1] - begin;
    const Matrix<T> dy{p.dy + begin * p.out, count, p.out, p.out};
    const Matrix<T> x{p.x + begin * p.in, count, p.in, p.in};
    float sums[kOwn][kOwn] = {};
    SumTile<true, true>(dy, row, x, column, count, sums);
    G* dweight = p.dweight + e * p.out * p.in;
    ForOwn(row, column, sums, [&](int64_t i, int64_t j, float sum) {
      if (i >= p.out || j >= p.in) return;
      G* at = dweight + i * p.in + j;
      *at = FromFloat<G>(fmaf(p.scale, sum, p.accumulate ? ToFloat(*at) : 0.0f));
    });
  }
}

}  // namespace

void PlainGroupedProduct(const PlainGroupedRows& p, const char* op, Stream* stream) {
  const int64_t tiles = p.rows / kSide + std::min<int64_t>(p.rows, p.experts);
  const dim3 grid(static_cast<unsigned>(CeilDiv(p.out, kSide)),
                  static_cast<unsigned>(std::min(tiles, kMaxGridExtent)));
  ForDType(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel =
        p.turned ? PlainGroupedRowsKernel<true, T> : PlainGroupedRowsKernel<false, T>;
    kernel<<<grid, kThreads, 0, Handle(stream)>>>(
        RowProduct<T>{p.offsets, static_cast<int>(p.experts), p.rows, p.in, p.out,
                      static_cast<const T*>(p.operand), static_cast<const T*>(p.weight),
                      static_cast<const T*>(p.bias), static_cast<T*>(p.result), p.scale,
                      p.accumulate, p.zeros_behind});
  });
  CheckLaunch(op);
}

void PlainGroupedProduct(const PlainGroupedWeights& p, const char* op, Stream* stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(p.in, kSide)),
                  static_cast<unsigned>(CeilDiv(p.out, kSide)),
                  static_cast<unsigned>(std::min(p.experts, kMaxGridExtent)));
  ForDType(p.dtype, [&](auto zero) {
    ForDType(p.grad_dtype, [&](auto grad_zero) {
      using T = decltype(zero);
      using G = decltype(grad_zero);
      PlainGroupedWeightKernel<<<grid, kThreads, 0, Handle(stream)>>>(WeightProduct<T, G>{
          p.offsets, static_cast<int>(p.experts), p.in, p.out, static_cast<const T*>(p.dy),
          static_cast<const T*>(p.x), static_cast<G*>(p.dweight), p.scale, p.accumulate});
    });
  });
  CheckLaunch(op);
}

void PlainGroupedLinear(const GroupedLinearForwardArgs& args, Stream* stream) {
  PlainGroupedProduct(PlainGroupedRows{.dtype = args.spec.dtype,
                                       .offsets = args.offsets,
                                       .experts = args.spec.experts,
                                       .rows = args.rows,
                                       .in = args.spec.in_features,
                                       .out = args.spec.out_features,
                                       .operand = args.x,
                                       .weight = args.weight,
                                       .bias = args.bias,
                                       .result = args.y,
                                       .zeros_behind = args.zeros_behind},
                      "GroupedLinearForward", stream);
}

void PlainGroupedLinear(const GroupedLinearInputGradientArgs& args, Stream* stream) {
  PlainGroupedProduct(PlainGroupedRows{.dtype = args.spec.dtype,
                                       .offsets = args.offsets,
                                       .experts = args.spec.experts,
                                       .rows = args.rows,
                                       .in = args.spec.out_features,
                                       .out = args.spec.in_features,
                                       .turned = true,
                                       .operand = args.dy,
                                       .weight = args.weight,
                                       .result = args.dx,
                                       .zeros_behind = args.zeros_behind},
                      "GroupedLinearInputGradient", stream);
}

void PlainGroupedLinear(const GroupedLinearWeightGradientArgs& args, Stream* stream) {
  PlainGroupedProduct(PlainGroupedWeights{.dtype = args.spec.dtype,
                                          .grad_dtype = args.spec.grad_dtype,
                                          .offsets = args.offsets,
                                          .experts = args.spec.experts,
                                          .in = args.spec.in_features,
                                          .out = args.spec.out_features,
                                          .dy = args.dy,
                                          .x = args.x,
                                          .accumulate = args.accumulate,
                                          .dweight = args.dweight},
                      "GroupedLinearWeightGradient", stream);
}

}  // namespace coxswain::kernels::cuda
