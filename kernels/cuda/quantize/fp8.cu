// Operands in FP8, both from one reading of x.
//
// A thread block has 128 x 128 elements, a thread 8 x 8 of them in registers: it loads and encodes
// its rows as they lie, and its columns into shared memory, from which rows of the turned operand
// go out 16 bytes a thread. Tiles and blocks have their scales within a thread block: one launch,
// 2 + 2 bytes an element of bfloat16 for both operands. Tensors and rows need their maxima before:
// a launch more, 2 bytes an element more, unless the tensor's is given. Where it is expected, that
// launch ends before it reads x.
// A maximum is of the bits of |x| as integers: of numbers it is the largest, infinity is above all
// of them and NaN above infinity. Integer maxima have no order, so that those of rows are atomic.
// Several matrices are the second extent of the grid.
// Bitwise deterministic, the bits of the CPU but for those of a NaN.
#include "kernels/quantize/fp8.h"

#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/cuda/quantize/fp8_turned_tile.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels {
namespace {

constexpr int kThreads = cuda::kTurnThreads;
constexpr int kTileExtent = cuda::kTurnExtent;
constexpr int kSide = cuda::kTurnSide;          // rows, and columns, of a thread
constexpr int kAcross = cuda::kTurnAcross;      // threads beside each other
constexpr int kWarps = kThreads / cuda::kWarp;  // each has two rows of threads
constexpr int kMostPartials = 1024;
constexpr int64_t kMostMatrices = 65535;  // of a grid's second extent
static_assert(2 * kAcross == cuda::kWarp);

struct Params {
  int64_t rows, cols, ldx;
  const void* x;
  bool wide;             // rows of x can be read 16 bytes at a time
  const uint32_t* amax;  // kTensor: bits, `partials` of them
  int partials;
  const uint32_t* expected;  // kTensor: bits; null, or 0 in it: amax is read
  uint32_t* observed;        // kTensor: bits, raised; null: not wanted
  uint32_t* row_maxima;      // kRow: bits of [rows], [cols]
  uint32_t* column_maxima;
  Fp8Straight straight;
  Fp8Turned turned;
  int64_t straight_bytes, turned_bytes;  // codes of a matrix, from which those of the next follow
};

// The matrix of this thread block; each of several has `partials` maxima of its own.
template <typename T>
__device__ __forceinline__ Params OfMatrix(const Params& all) {
  Params p = all;
  const int64_t i = blockIdx.y;
  p.x = static_cast<const T*>(p.x) + i * p.rows * p.ldx;
  p.amax += i * p.partials;
  if (p.straight.codes != nullptr) {
    p.straight.codes += i * p.straight_bytes;
    p.straight.scales += i;
  }
  if (p.turned.codes != nullptr) {
    p.turned.codes += i * p.turned_bytes;
    p.turned.scales += i;
  }
  return p;
}

// A tile's place, in tiles, and its first element.
struct Place {
  int64_t tile_row, tile_column;
  __device__ __forceinline__ int64_t row() const { return tile_row * kFp8Block; }
  __device__ __forceinline__ int64_t column() const { return tile_column * kFp8Block; }
};
__device__ __forceinline__ int64_t Blocks(int64_t extent) {
  return (extent + kFp8Block - 1) / kFp8Block;
}
__device__ __forceinline__ int64_t Padded(int64_t count) { return (count + 3) / 4 * 4; }
__device__ __forceinline__ Place PlaceOf(const Params& p, int64_t tile) {
  const int64_t across = max(Blocks(p.cols), int64_t{1});
  return {tile / across, tile % across};
}

// The 8 x 8 elements of a thread; 0 outside the matrix.
template <typename T>
struct Square {
  static constexpr int kWords = kSide * static_cast<int>(sizeof(T)) / 4;
  uint32_t words[kSide][kWords];

  __device__ __forceinline__ float Value(int i, int j) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i][j]);
    } else {
      const uint32_t pair = words[i][j / 2];
      return __uint_as_float(j % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    }
  }
  __device__ __forceinline__ uint32_t Size(int i, int j) const {
    return __float_as_uint(Value(i, j)) & 0x7fffffffu;
  }
  __device__ __forceinline__ void LoadRow(int i, const T* from, int64_t columns, bool wide) {
    if (wide && columns > 0) {
#pragma unroll
      for (int w = 0; w < kWords; w += 4) {
        const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from) + w / 4);
        words[i][w] = raw.x, words[i][w + 1] = raw.y;
        words[i][w + 2] = raw.z, words[i][w + 3] = raw.w;
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      const float value = j < columns ? cuda::ToFloat(from[j]) : 0.0f;
      if constexpr (sizeof(T) == 4) {
        words[i][j] = __float_as_uint(value);
      } else {
        const uint32_t bits = __float_as_uint(value) >> 16;
        words[i][j / 2] = j % 2 == 0 ? bits : words[i][j / 2] | bits << 16;
      }
    }
  }
  __device__ __forceinline__ void Load(const Params& p, int64_t row, int64_t column) {
    const int64_t columns = p.cols - column;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const T* const from = static_cast<const T*>(p.x) + (row + i) * p.ldx + column;
      LoadRow(i, from, row + i < p.rows ? columns : 0, p.wide);
    }
  }
};

__device__ __forceinline__ uint32_t WarpMax(uint32_t x) { return __reduce_max_sync(~0u, x); }

// The largest of the block in every thread.
__device__ __forceinline__ uint32_t BlockMax(uint32_t x, uint32_t (&shared)[kWarps]) {
  x = WarpMax(x);
  if (threadIdx.x % cuda::kWarp == 0) shared[threadIdx.x / cuda::kWarp] = x;
  __syncthreads();
  uint32_t largest = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) largest = max(largest, shared[w]);
  return largest;
}

template <typename T>
__device__ __forceinline__ uint32_t LargestOf(const Square<T>& square) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) largest = max(largest, square.Size(i, j));
  }
  return largest;
}

// Maxima of the rows of a tile, and of its columns by warp.
struct TileMaxima {
  uint32_t rows[kTileExtent];
  uint32_t columns[kWarps][kTileExtent];

  __device__ __forceinline__ uint32_t Column(int column) const {
    uint32_t largest = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) largest = max(largest, columns[w][column]);
    return largest;
  }
};

template <typename T>
__device__ __forceinline__ void FindMaxima(const Square<T>& square, TileMaxima* maxima) {
  const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < kSide; ++j) largest = max(largest, square.Size(i, j));
#pragma unroll
    for (int offset = kAcross / 2; offset > 0; offset /= 2) {
      largest = max(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    if (across == 0) maxima->rows[down * kSide + i] = largest;
  }
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < kSide; ++i) largest = max(largest, square.Size(i, j));
    largest = max(largest, __shfl_xor_sync(~0u, largest, kAcross));
    if (down % 2 == 0) maxima->columns[threadIdx.x / cuda::kWarp][across * kSide + j] = largest;
  }
}

template <Fp8Format kFormat>
__device__ __forceinline__ float ScaleOf(uint32_t largest) {
  if (largest == 0) return 1.0f;
  const float scale = __fdiv_rn(__uint_as_float(largest), Fp8Largest(kFormat));
  return scale < kFp8SmallestScale ? kFp8SmallestScale : scale;  // NaN stays
}
__device__ __forceinline__ float Inverse(float scale) { return __fdiv_rn(1.0f, scale); }

// The inverses of the scales of a thread's rows and columns.
struct Inverses {
  float row[kSide], column[kSide];

  __device__ __forceinline__ void SetAll(float inverse) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) row[i] = column[i] = inverse;
  }
};

struct SharedInverses {
  alignas(16) float rows[kTileExtent];
  alignas(16) float columns[kTileExtent];

  __device__ __forceinline__ void Read(Inverses* inverses) const {
    const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      inverses->row[i] = rows[down * kSide + i];
      inverses->column[i] = columns[across * kSide + i];
    }
  }
};

// The scales of the rows and columns of a tile, from `row_largest` and `column_largest` of their
// index in it: into memory where `writes`, their inverses into shared memory. Half of the block has
// the rows, half the columns.
template <Fp8Format kFormat, typename RowLargest, typename ColumnLargest>
__device__ __forceinline__ void ScalesOfTile(const RowLargest& row_largest,
                                             const ColumnLargest& column_largest, float* of_rows,
                                             int64_t rows, float* of_columns, int64_t columns,
                                             SharedInverses* inverses) {
  const int i = threadIdx.x % kTileExtent;
  const bool straight = threadIdx.x < kTileExtent;
  const float scale = ScaleOf<kFormat>(straight ? row_largest(i) : column_largest(i));
  (straight ? inverses->rows : inverses->columns)[i] = Inverse(scale);
  float* const to = straight ? of_rows : of_columns;
  if (to != nullptr && i < (straight ? rows : columns)) to[i] = scale;
}

template <Fp8Format kFormat>
__device__ __forceinline__ uint32_t CodePair(float low, float high) {
  constexpr auto kKind = kFormat == Fp8Format::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, kKind);
}
// Eight codes, those from `count` on 0. value(i): the i-th number.
template <Fp8Format kFormat, typename ValueOf>
__device__ __forceinline__ uint2 Codes(int64_t count, const ValueOf& value) {
  const auto four = [&](int i) {
    return CodePair<kFormat>(value(i), value(i + 1)) | CodePair<kFormat>(value(i + 2), value(i + 3))
                                                           << 16;
  };
  const auto kept = [](int64_t bytes) {
    return bytes >= 4 ? ~0u : bytes <= 0 ? 0u : (1u << 8 * bytes) - 1;
  };
  return {four(0) & kept(count), four(4) & kept(count - 4)};
}

template <Fp8Format kFormat, typename T>
__device__ __forceinline__ void WriteStraight(const Params& p, const Square<T>& square,
                                              const Inverses& inverses, int64_t row,
                                              int64_t column) {
  const int64_t stride = Padded((p.cols + 3) / 4) * 4;
  if (column >= stride) return;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
    if (row + i >= p.rows) break;
    const uint2 codes = Codes<kFormat>(
        p.cols - column, [&](int j) { return __fmul_rn(square.Value(i, j), inverses.row[i]); });
    *reinterpret_cast<uint2*>(p.straight.codes + (row + i) * stride + column) = codes;
  }
}

template <Fp8Format kFormat, typename T>
__device__ __forceinline__ void TurnSquare(const Params& p, const Square<T>& square,
                                           const Inverses& inverses, int64_t row,
                                           cuda::TurnedTile& tile) {
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
    cuda::TurnedPiece(tile, j) = Codes<kFormat>(
        p.rows - row, [&](int i) { return __fmul_rn(square.Value(i, j), inverses.column[j]); });
  }
}

// Bits of what amax is expected to be; 0: it is to be found.
__device__ __forceinline__ uint32_t Expected(const Params& p) {
  return p.expected == nullptr ? 0u : *p.expected & 0x7fffffffu;
}

// Raises what was observed to the largest of the tile. One atomic of a thread block at most, and of
// few but the first.
template <typename T>
__device__ __forceinline__ void Observe(const Params& p, const Square<T>& square) {
  __shared__ uint32_t of_warps[kWarps];
  const uint32_t largest = BlockMax(LargestOf(square), of_warps);
  if (threadIdx.x == 0 && largest > *p.observed) atomicMax(p.observed, largest);
}

// kTensor: the largest of each thread block; kRow: of each row and column.
template <typename T, Fp8Scaling kScaling>
__global__ void __launch_bounds__(kThreads)
    MaximaKernel(Params all, uint32_t* partials, int64_t tiles) {
  __shared__ TileMaxima maxima;
  __shared__ uint32_t of_warps[kWarps];
  const Params p = kScaling == Fp8Scaling::kTensor ? OfMatrix<T>(all) : all;
  if (kScaling == Fp8Scaling::kTensor && Expected(p) != 0) return;
  const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
  uint32_t largest = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const Place place = PlaceOf(p, tile);
    Square<T> square;
    square.Load(p, place.row() + down * kSide, place.column() + across * kSide);
    if constexpr (kScaling == Fp8Scaling::kTensor) {
      largest = max(largest, LargestOf(square));
    } else {
      FindMaxima(square, &maxima);
      __syncthreads();
      const int i = threadIdx.x % kTileExtent;
      if (threadIdx.x < kTileExtent) {
        if (place.row() + i < p.rows) atomicMax(p.row_maxima + place.row() + i, maxima.rows[i]);
      } else if (place.column() + i < p.cols) {
        atomicMax(p.column_maxima + place.column() + i, maxima.Column(i));
      }
      __syncthreads();
    }
  }
  if constexpr (kScaling == Fp8Scaling::kTensor) {
    largest = BlockMax(largest, of_warps);
    if (threadIdx.x == 0) partials[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = largest;
  }
}

// Scales of the tile at `place` and their inverses.
template <typename T, Fp8Format kFormat, Fp8Scaling kScaling>
__device__ __forceinline__ void FindScales(const Params& p, const Place& place,
                                           const Square<T>& square, TileMaxima* maxima,
                                           uint32_t (&of_warps)[kWarps], SharedInverses* shared,
                                           Inverses* inverses) {
  if constexpr (kScaling == Fp8Scaling::kTensor || kScaling == Fp8Scaling::kBlock) {
    uint32_t largest = 0;
    if constexpr (kScaling == Fp8Scaling::kTensor) {
      largest = Expected(p);
      const int partials = largest == 0 ? p.partials : 0;
      for (int i = threadIdx.x; i < partials; i += kThreads) {
        largest = max(largest, p.amax[i] & 0x7fffffffu);
      }
    } else {
      largest = LargestOf(square);
    }
    const float scale = ScaleOf<kFormat>(BlockMax(largest, of_warps));
    inverses->SetAll(Inverse(scale));
    int64_t straight = 0, turned = 0;
    if constexpr (kScaling == Fp8Scaling::kBlock) {
      straight = place.tile_row * Padded(Blocks(p.cols)) + place.tile_column;
      turned = place.tile_column * Padded(Blocks(p.rows)) + place.tile_row;
    }
    const bool writes = kScaling == Fp8Scaling::kBlock || blockIdx.x == 0;
    if (threadIdx.x == 0 && writes) {
      if (p.straight.codes != nullptr) p.straight.scales[straight] = scale;
      if (p.turned.codes != nullptr) p.turned.scales[turned] = scale;
    }
    return;
  }
  const int64_t rows = p.rows - place.row(), columns = p.cols - place.column();
  float *of_rows = nullptr, *of_columns = nullptr;
  if constexpr (kScaling == Fp8Scaling::kRow) {
    const uint32_t *row_maxima = p.row_maxima + place.row(),
                   *column_maxima = p.column_maxima + place.column();
    if (p.straight.codes != nullptr && place.tile_column == 0) {
      of_rows = p.straight.scales + place.row();
    }
    if (p.turned.codes != nullptr && place.tile_row == 0) {
      of_columns = p.turned.scales + place.column();
    }
    ScalesOfTile<kFormat>([&](int i) { return i < rows ? row_maxima[i] : 0u; },
                          [&](int i) { return i < columns ? column_maxima[i] : 0u; }, of_rows, rows,
                          of_columns, columns, shared);
  } else {
    FindMaxima(square, maxima);
    __syncthreads();
    if (p.straight.codes != nullptr) {
      of_rows = p.straight.scales + place.tile_column * Padded(p.rows) + place.row();
    }
    if (p.turned.codes != nullptr) {
      of_columns = p.turned.scales + place.tile_row * Padded(p.cols) + place.column();
    }
    ScalesOfTile<kFormat>([&](int i) { return maxima->rows[i]; },
                          [&](int i) { return maxima->Column(i); }, of_rows, rows, of_columns,
                          columns, shared);
  }
  __syncthreads();
  shared->Read(inverses);
}

template <typename T, Fp8Format kFormat, Fp8Scaling kScaling>
__global__ void __launch_bounds__(kThreads) QuantizeKernel(Params all) {
  const Params p = kScaling == Fp8Scaling::kTensor ? OfMatrix<T>(all) : all;
  __shared__ alignas(16) cuda::TurnedTile turned;
  __shared__ TileMaxima maxima;
  __shared__ SharedInverses shared;
  __shared__ uint32_t of_warps[kWarps];
  const Place place = PlaceOf(p, blockIdx.x);
  const int64_t row = place.row() + threadIdx.x / kAcross * kSide;
  const int64_t column = place.column() + threadIdx.x % kAcross * kSide;
  Square<T> square;
  square.Load(p, row, column);
  if constexpr (kScaling == Fp8Scaling::kTensor) {
    if (p.observed != nullptr) Observe(p, square);
  }
  Inverses inverses;
  FindScales<T, kFormat, kScaling>(p, place, square, &maxima, of_warps, &shared, &inverses);
  if (p.straight.codes != nullptr) WriteStraight<kFormat>(p, square, inverses, row, column);
  if (p.turned.codes == nullptr) return;
  TurnSquare<kFormat>(p, square, inverses, row, turned);
  __syncthreads();
  cuda::WriteTurnedTile(turned, p.rows, p.cols, place.row(), place.column(), p.turned.codes);
}

// The maxima that the scales of tensors and rows need.
template <typename T>
void LaunchMaxima(const Fp8QuantizeArgs& args, int64_t tiles, Params* p, cudaStream_t stream) {
  auto* const scratch = static_cast<uint32_t*>(args.workspace.data);
  if (args.scaling == Fp8Scaling::kTensor) {
    if (args.amax != nullptr) {
      p->amax = reinterpret_cast<const uint32_t*>(args.amax);
      p->partials = 1;
      return;
    }
    p->amax = scratch;
    const int64_t at_once = int64_t{4} * cuda::Multiprocessors() / args.matrices;
    p->partials =
        static_cast<int>(std::min<int64_t>({tiles, kMostPartials, std::max<int64_t>(at_once, 1)}));
    const dim3 grid(static_cast<unsigned>(p->partials), static_cast<unsigned>(args.matrices));
    MaximaKernel<T, Fp8Scaling::kTensor><<<grid, kThreads, 0, stream>>>(*p, scratch, tiles);
    return;
  }
  p->row_maxima = scratch;
  p->column_maxima = scratch + args.rows;
  cuda::CheckCuda(
      cudaMemsetAsync(scratch, 0, static_cast<size_t>(args.rows + args.cols) * 4, stream),
      "cudaMemsetAsync");
  MaximaKernel<T, Fp8Scaling::kRow>
      <<<static_cast<unsigned>(tiles), kThreads, 0, stream>>>(*p, nullptr, tiles);
}

template <typename T, Fp8Format kFormat>
void LaunchCodes(const Fp8QuantizeArgs& args, int64_t tiles, const Params& p, cudaStream_t stream) {
  const Fp8Scaling scaling = args.scaling;
  const auto kernel =
      scaling == Fp8Scaling::kTensor ? QuantizeKernel<T, kFormat, Fp8Scaling::kTensor>
      : scaling == Fp8Scaling::kRow  ? QuantizeKernel<T, kFormat, Fp8Scaling::kRow>
      : scaling == Fp8Scaling::kTile ? QuantizeKernel<T, kFormat, Fp8Scaling::kTile>
                                     : QuantizeKernel<T, kFormat, Fp8Scaling::kBlock>;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(args.matrices));
  kernel<<<grid, kThreads, 0, stream>>>(p);
}

void Validate(const Fp8QuantizeArgs& args) {
  cuda::RequireExtent(args.rows, "Fp8Quantize", "rows");
  cuda::RequireExtent(args.cols, "Fp8Quantize", "cols");
  cuda::RequireExtent(args.matrices, "Fp8Quantize", "matrices");
  if (args.matrices > kMostMatrices) {
    throw std::invalid_argument("Fp8Quantize: matrices is " + std::to_string(args.matrices) +
                                ", at most " + std::to_string(kMostMatrices));
  }
  if (args.ldx < args.cols) {
    throw std::invalid_argument("Fp8Quantize: ldx is " + std::to_string(args.ldx) + ", a row has " +
                                std::to_string(args.cols));
  }
  CheckFp8Amax(args);
  if (args.amax == nullptr) {
    const int64_t bytes = Fp8QuantizeWorkspaceBytes(args.scaling, args.rows, args.cols);
    cuda::RequireWorkspace(args.workspace, args.matrices * bytes, "Fp8Quantize");
  }
}

}  // namespace

bool Fp8QuantizeSupports(const Fp8QuantizeArgs& args) { return true; }

int64_t Fp8QuantizeWorkspaceBytes(Fp8Scaling scaling, int64_t rows, int64_t cols) {
  if (scaling == Fp8Scaling::kTensor) return int64_t{kMostPartials} * 4;
  return scaling == Fp8Scaling::kRow ? cuda::AlignUp((rows + cols) * 4) : 0;
}

void Fp8Quantize(const Fp8QuantizeArgs& args, Stream* stream) {
  Validate(args);
  const bool tensor = args.scaling == Fp8Scaling::kTensor;
  if (args.matrices == 0 || (args.rows * args.cols == 0 && !tensor)) return;
  const bool wants_codes = args.straight.codes != nullptr || args.turned.codes != nullptr;
  if (!wants_codes && args.observed == nullptr) return;
  const int64_t tiles = std::max<int64_t>(1, Fp8Blocks(args.rows) * Fp8Blocks(args.cols));
  const cudaStream_t handle = cuda::Handle(stream);
  cuda::ForDType(args.dtype, [&](auto zero) {
    using T = decltype(zero);
    Params p{.rows = args.rows,
             .cols = args.cols,
             .ldx = args.ldx,
             .x = args.x,
             .wide = args.cols % kSide == 0 && cuda::Aligned<T>(args.x, args.ldx),
             .amax = nullptr,
             .partials = 0,
             .expected = reinterpret_cast<const uint32_t*>(args.expected),
             .observed = reinterpret_cast<uint32_t*>(args.observed),
             .row_maxima = nullptr,
             .column_maxima = nullptr,
             .straight = args.straight,
             .turned = args.turned,
             .straight_bytes = args.rows * Fp8Stride(args.cols),
             .turned_bytes = args.cols * Fp8Stride(args.rows)};
    if (tensor || args.scaling == Fp8Scaling::kRow) LaunchMaxima<T>(args, tiles, &p, handle);
    if (args.format == Fp8Format::kE4M3) {
      LaunchCodes<T, Fp8Format::kE4M3>(args, tiles, p, handle);
    } else {
      LaunchCodes<T, Fp8Format::kE5M2>(args, tiles, p, handle);
    }
  });
  cuda::CheckLaunch("Fp8Quantize");
}

}  // namespace coxswain::kernels
