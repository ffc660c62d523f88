// One pass over a wide bfloat16 matrix X [T, N] of adapters (kernels/lora/lora_linear.h):
//   P = scale X W [T, R] and G += X^T H [N, R], either or both.
// Forward: h = scale x A^T is P with W = A^T. Backward: g_j = scale dy_j B_j and dB_j += dy_j^T h_j
// are both of one pass over dy_j; dA += g^T x is G^T with H = g.
// Source: Hu et al., "LoRA", 2021.
//
// A block owns a slice of columns and a range of rows. It streams X through three stages of shared
// memory in tiles of 64 x 256, one barrier per tile. For P, a warp owns 16 rows and half of the
// columns of a tile, sums over the slice in registers, and the two halves meet in shared memory.
// For G, a warp owns 32 columns of every tile and keeps their sums over all rows of the block in
// registers. What one block does not hold whole, sums over slices (P) or over ranges of rows (G),
// is left in the workspace as float32 for low_rank_sums.cu. Bytes: 2 per element of X, read once,
// plus 8 R for every block's columns and, for P of several slices, 8 R slices for every row. Tensor
// cores accumulate in float32; all orders are fixed by the plan, which depends on shapes and the
// number of multiprocessors: bitwise deterministic.
#include "kernels/cuda/lora/low_rank_pass.cuh"

#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensors/rank_blocks.cuh"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/products/gemm.h"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kStages = 3;
constexpr int kRowGroups = kLowRankTileRows / 16;
constexpr int kTileVectors = kLowRankTileColumns / 8;
constexpr int kTileRowBytes = RowBytes(kLowRankTileColumns);
constexpr int kTileBytes = kLowRankTileRows * kTileRowBytes;
constexpr int kWeightBytes = 100 * 1024;  // of shared memory, at most

// kRankTiles = R / 8.
template <int kRankTiles, Sums kSums>
struct Shape {
  static constexpr bool kP = kSums != Sums::kRows;
  static constexpr bool kG = kSums != Sums::kColumns;
  static constexpr int kRank = 8 * kRankTiles;
  static constexpr int kRankRowBytes = RankRowBytes(kRankTiles);
  static constexpr int kHBytes = kG ? kLowRankTileRows * kRankRowBytes : 0;
  static constexpr int kHalfBytes = kP ? kRowGroups * kRankTiles * 4 * kWarp * 4 : 0;
  // Tiles of columns whose sums over rows fit 128 registers.
  static constexpr int kTiles = std::min(8, 16 / kRankTiles);
};

template <int kRankTiles, Sums kSums>
class Block {
 public:
  using S = Shape<kRankTiles, kSums>;

  __device__ __forceinline__ Block(const LowRankPass& pass, const LowRankSlice& slice,
                                   unsigned char* shared)
      : pass_(pass),
        slice_(slice),
        member_(pass.member[slice.member]),
        chunks_((slice.columns + kLowRankTileColumns - 1) / kLowRankTileColumns),
        lane_(threadIdx.x % kWarp),
        warp_(threadIdx.x / kWarp) {
    const int split = static_cast<int>(blockIdx.x) - slice.first_block;
    first_row_ = int64_t{split} * slice.tiles * kLowRankTileRows;
    const int64_t left = (pass.rows - first_row_ + kLowRankTileRows - 1) / kLowRankTileRows;
    tiles_ = static_cast<int>(left < slice.tiles ? left : slice.tiles);
    w_row_bytes_ = kSums == Sums::kColumns ? RowBytes(pass.plan.widest) : S::kRankRowBytes;
    stages_ = SharedAddress(shared);
    h_ = stages_ + kStages * kTileBytes;
    halves_ = reinterpret_cast<float*>(shared + kStages * (kTileBytes + S::kHBytes));
    w_ = h_ + kStages * S::kHBytes + S::kHalfBytes;
  }

  __device__ __forceinline__ void Run() {
    WaitForPrevious();
    if constexpr (S::kP) CopyWeights();
    CopyTile(0);
    CopyTile(1);
    if constexpr (S::kG) {
      SumBoth();
    } else {
      SumOverColumns();
    }
  }

 private:
  using Fragment = float[kRankTiles][4];

  __device__ __forceinline__ void CopyWeights() {
    const bf16* w = member_.w;
    if constexpr (kSums == Sums::kColumns) {
      const int vectors = chunks_ * kTileVectors;
      for (int i = threadIdx.x; i < S::kRank * vectors; i += kThreads) {
        const int rank = i / vectors, column = i % vectors * 8;
        const bool valid = column < slice_.columns;
        CopyAsync16(w_ + rank * w_row_bytes_ + kBf16Bytes * column,
                    w + (valid ? rank * pass_.ldw + slice_.column + column : 0), valid);
      }
    } else {
      for (int i = threadIdx.x; i < chunks_ * kLowRankTileColumns * kRankTiles; i += kThreads) {
        const int column = i / kRankTiles, vector = i % kRankTiles;
        const bool valid = column < slice_.columns;
        CopyAsync16(w_ + column * w_row_bytes_ + 16 * vector,
                    w + (valid ? (slice_.column + column) * pass_.ldw + 8 * vector : 0), valid);
      }
    }
  }

  // Tiles in the order of rows, then columns; one group of copies each, even behind the last.
  __device__ __forceinline__ void CopyTile(int step) {
    const int tile = step / chunks_, chunk = step - tile * chunks_;
    if (tile < tiles_) {
      const int64_t row0 = first_row_ + int64_t{tile} * kLowRankTileRows;
      const int column = chunk * kLowRankTileColumns + lane_ * 8;
      const uint32_t to = stages_ + step % kStages * kTileBytes + 16 * lane_;
#pragma unroll
      for (int i = 0; i < kLowRankTileRows / kWarps; ++i) {
        const int row = warp_ + i * kWarps;
        const bool valid = row0 + row < pass_.rows && column < slice_.columns;
        const int64_t from = (row0 + row) * pass_.ldx + slice_.column + column;
        CopyAsync16(to + row * kTileRowBytes, member_.x + (valid ? from : 0), valid);
      }
      if (S::kG && chunk == 0) CopyH(tile, row0);
    }
    CommitCopies();
  }

  __device__ __forceinline__ void CopyH(int tile, int64_t row0) {
    const uint32_t to = h_ + tile % kStages * S::kHBytes;
    for (int i = threadIdx.x; i < kLowRankTileRows * kRankTiles; i += kThreads) {
      const int row = i / kRankTiles, vector = i % kRankTiles;
      const bool valid = row0 + row < pass_.rows;
      CopyAsync16(to + row * S::kRankRowBytes + 16 * vector,
                  member_.h + (valid ? (row0 + row) * pass_.ldh + 8 * vector : 0), valid);
    }
  }

  // Waits for tile `step`, whose stage it returns, and starts the copy of the one after next into
  // the stage that all warps have left.
  __device__ __forceinline__ uint32_t NextTile(int step) {
    WaitForCopies<kStages - 2>();
    __syncthreads();
    CopyTile(step + kStages - 1);
    return stages_ + step % kStages * kTileBytes;
  }

  __device__ __forceinline__ void SumOverColumns() {
    int step = 0;
    for (int tile = 0; tile < tiles_; ++tile) {
      Fragment p = {};
      for (int chunk = 0; chunk < chunks_; ++chunk, ++step) AddToP(NextTile(step), chunk, p);
      StoreP(tile, p);
    }
  }

  __device__ __forceinline__ void SumBoth() {
    float g[S::kTiles][2][kRankTiles][4] = {};
    int step = 0;
    for (int tile = 0; tile < tiles_; ++tile) {
      Fragment p = {};
      uint32_t h[kRowGroups][kRankTiles][2];
#pragma unroll
      for (int chunk = 0; chunk < S::kTiles; ++chunk) {
        if (chunk < chunks_) {
          const uint32_t x = NextTile(step++);
          if (chunk == 0) LoadH(tile, h);
          if constexpr (S::kP) AddToP(x, chunk, p);
          AddToG(x, h, g[chunk]);
        }
      }
      if constexpr (S::kP) StoreP(tile, p);
    }
#pragma unroll
    for (int chunk = 0; chunk < S::kTiles; ++chunk) {
      if (chunk < chunks_) StoreG(chunk, g[chunk]);
    }
  }

  __device__ __forceinline__ void AddToP(uint32_t x, int chunk, Fragment& p) {
    constexpr int kHalf = kLowRankTileColumns / 2;
    const int rows = warp_ % kRowGroups * 16, columns = warp_ / kRowGroups * kHalf;
    const uint32_t from =
        x + (rows + lane_ % 16) * kTileRowBytes + kBf16Bytes * columns + lane_ / 16 * 16;
    const int w_column = chunk * kLowRankTileColumns + columns;
#pragma unroll
    for (int k = 0; k < kHalf; k += 16) {
      uint32_t a[4], b[kRankTiles][2];
      LoadBlocks4(from + kBf16Bytes * k, a);
      LoadRankBlocks<kRankTiles, kSums == Sums::kColumns>(w_, w_row_bytes_, w_column + k, lane_, b);
#pragma unroll
      for (int i = 0; i < kRankTiles; ++i) MultiplyAdd(p[i], a, b[i][0], b[i][1]);
    }
  }

  __device__ __forceinline__ void LoadH(int tile, uint32_t (&h)[kRowGroups][kRankTiles][2]) {
    const uint32_t from = h_ + tile % kStages * S::kHBytes;
#pragma unroll
    for (int k = 0; k < kRowGroups; ++k) {
      LoadRankBlocks<kRankTiles, false>(from, S::kRankRowBytes, 16 * k, lane_, h[k]);
    }
  }

  __device__ __forceinline__ void AddToG(uint32_t x, const uint32_t (&h)[kRowGroups][kRankTiles][2],
                                         float (&g)[2][kRankTiles][4]) {
    const uint32_t from = x + (lane_ / 16 * 8 + lane_ % 8) * kTileRowBytes +
                          kBf16Bytes * (warp_ * 32 + lane_ / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < kRowGroups; ++k) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t a[4];
        LoadBlocks4Transposed(from + 16 * k * kTileRowBytes + 16 * kBf16Bytes * m, a);
#pragma unroll
        for (int i = 0; i < kRankTiles; ++i) MultiplyAdd(g[m][i], a, h[k][i][0], h[k][i][1]);
      }
    }
  }

  // The two halves of the columns meet in shared memory; the barriers of the next tile's copies
  // stand between reading them and writing the next ones.
  __device__ __forceinline__ void StoreP(int tile, Fragment& p) {
    float* half = halves_ + warp_ % kRowGroups * kRankTiles * 4 * kWarp + lane_;
    if (warp_ >= kRowGroups) {
#pragma unroll
      for (int i = 0; i < 4 * kRankTiles; ++i) half[i * kWarp] = p[i / 4][i % 4];
    }
    __syncthreads();
    if (warp_ >= kRowGroups) return;
#pragma unroll
    for (int i = 0; i < 4 * kRankTiles; ++i) p[i / 4][i % 4] += half[i * kWarp];
    const int64_t row = first_row_ + int64_t{tile} * kLowRankTileRows + warp_ * 16 + lane_ / 4;
#pragma unroll
    for (int i = 0; i < kRankTiles; ++i) {
      const int rank = 8 * i + lane_ % 4 * 2;
      if (row < pass_.rows) StorePair(row, rank, p[i][0], p[i][1]);
      if (row + 8 < pass_.rows) StorePair(row + 8, rank, p[i][2], p[i][3]);
    }
  }

  __device__ __forceinline__ void StorePair(int64_t row, int rank, float x, float y) {
    if (slice_.column_sums >= 0) {
      float* to = pass_.sums + slice_.column_sums + row * S::kRank + rank;
      *reinterpret_cast<float2*>(to) = make_float2(x, y);
    } else {
      *reinterpret_cast<__nv_bfloat162*>(member_.p + row * pass_.ldp + rank) =
          __floats2bfloat162_rn(pass_.scale * x, pass_.scale * y);
    }
  }

  __device__ __forceinline__ void StoreG(int chunk, const float (&g)[2][kRankTiles][4]) {
    const int split = static_cast<int>(blockIdx.x) - slice_.first_block;
    float* to = pass_.sums + slice_.row_sums + int64_t{split} * slice_.columns * S::kRank;
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int column = chunk * kLowRankTileColumns + warp_ * 32 + m * 16 + lane_ / 4;
#pragma unroll
      for (int i = 0; i < kRankTiles; ++i) {
        float* at = to + int64_t{column} * S::kRank + 8 * i + lane_ % 4 * 2;
        if (column < slice_.columns) {
          *reinterpret_cast<float2*>(at) = make_float2(g[m][i][0], g[m][i][1]);
        }
        if (column + 8 < slice_.columns) {
          *reinterpret_cast<float2*>(at + 8 * S::kRank) = make_float2(g[m][i][2], g[m][i][3]);
        }
      }
    }
  }

  const LowRankPass& pass_;
  const LowRankSlice& slice_;
  const LowRankMember& member_;
  const int chunks_, lane_, warp_;
  int64_t first_row_;
  int tiles_, w_row_bytes_;
  uint32_t stages_, h_, w_;  // shared memory
  float* halves_;
};

template <int kRankTiles, Sums kSums>
__global__ void __launch_bounds__(kThreads, 1)
    LowRankKernel(const __grid_constant__ LowRankPass pass) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextStart();
  int slice = 0;
  while (slice + 1 < pass.plan.slices &&
         static_cast<int>(blockIdx.x) >= pass.plan.slice[slice + 1].first_block) {
    ++slice;
  }
  Block<kRankTiles, kSums>(pass, pass.plan.slice[slice], shared).Run();
}

template <int kRankTiles, Sums kSums>
void LaunchPass(const LowRankPass& pass, Stream* stream) {
  using S = Shape<kRankTiles, kSums>;
  const int64_t weights = !S::kP                    ? 0
                          : kSums == Sums::kColumns ? int64_t{S::kRank} * RowBytes(pass.plan.widest)
                                                    : int64_t{pass.plan.widest} * S::kRankRowBytes;
  const int64_t bytes = kStages * (kTileBytes + S::kHBytes) + S::kHalfBytes + weights;
  const auto kernel = LowRankKernel<kRankTiles, kSums>;
  AllowSharedMemory(kernel, static_cast<int>(bytes), "LoraLinear");
  LaunchEarly(kernel, static_cast<unsigned>(pass.plan.blocks), kThreads, static_cast<size_t>(bytes),
              Handle(stream), "LoraLinear", pass);
}

// Tiles of columns that a block can own.
template <int kRankTiles, Sums kSums>
int64_t SliceTiles() {
  using S = Shape<kRankTiles, kSums>;
  constexpr int64_t kTileWeights =
      kSums == Sums::kColumns ? S::kRank * kTileRowBytes : kLowRankTileColumns * S::kRankRowBytes;
  constexpr int64_t kFitting = S::kP ? kWeightBytes / kTileWeights : 64;
  return S::kG ? std::min<int64_t>(S::kTiles, kFitting) : kFitting;
}

template <int kRankTiles, Sums kSums>
bool Pass(LowRankPass pass, LowRankProblem problem, const Workspace& workspace, Stream* stream) {
  using S = Shape<kRankTiles, kSums>;
  problem.slice_tiles = SliceTiles<kRankTiles, kSums>();
  problem.sums_columns = S::kP;
  problem.sums_rows = S::kG;
  problem.blocks = Multiprocessors();
  pass.plan = PlanLowRank(problem, GemmWorkspaceBytes());
  if (pass.plan.slices == 0) return false;
  pass.rows = problem.rows;
  pass.rank = static_cast<int32_t>(problem.rank);
  pass.sums = static_cast<float*>(workspace.data);
  LaunchPass<kRankTiles, kSums>(pass, stream);
  if (S::kP) SumColumns(pass, stream);
  if (S::kG) SumRows(pass, stream);
  return true;
}

template <Sums kSums>
bool PassOfRank(const LowRankPass& pass, const LowRankProblem& problem, const Workspace& workspace,
                Stream* stream) {
  switch (problem.rank) {
    case 8:
      return Pass<1, kSums>(pass, problem, workspace, stream);
    case 16:
      return Pass<2, kSums>(pass, problem, workspace, stream);
    case 24:
      return Pass<3, kSums>(pass, problem, workspace, stream);
    case 32:
      return Pass<4, kSums>(pass, problem, workspace, stream);
  }
  if constexpr (kSums != Sums::kBoth) {
    if (problem.rank == 48) return Pass<6, kSums>(pass, problem, workspace, stream);
    if (problem.rank == 64) return Pass<8, kSums>(pass, problem, workspace, stream);
  }
  return false;
}

}  // namespace

bool RunLowRankPass(Sums sums, const LowRankPass& pass, const LowRankProblem& problem,
                    const Workspace& workspace, Stream* stream) {
  switch (sums) {
    case Sums::kColumns:
      return PassOfRank<Sums::kColumns>(pass, problem, workspace, stream);
    case Sums::kRows:
      return PassOfRank<Sums::kRows>(pass, problem, workspace, stream);
    case Sums::kBoth:
      return PassOfRank<Sums::kBoth>(pass, problem, workspace, stream);
  }
  return false;
}

}  // namespace coxswain::kernels::cuda
