// P = scale X W_e over the rows of each expert, for all experts in one launch.
//
// A block has 128 rows, a warp 16 of them. It streams X and W_e through three stages of shared
// memory in tiles of 64 columns, one barrier a tile, three blocks a multiprocessor at rank 16; sums
// over columns stay in registers. Where an expert's rows end inside the block's, it goes through
// the columns again for the next one's: rows are copied for their own expert alone, and what a
// stage holds for other rows reaches nothing that is stored.
//
// Bytes: 2 per element of X, read once; W_e of a tile, 2 R / 128 as many, from the L2 cache.
// Bitwise deterministic: a row's sum runs over the columns in order, on tensor cores in float32,
// and does not depend on the other rows.
#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/grouped_low_rank.h"
#include "kernels/cuda/experts/segment_pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensors/rank_blocks.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTileRows = kThreads / kWarp * 16;
constexpr int kTileColumns = 64;
constexpr int kRowVectors = kTileColumns / kVector<bf16>;
constexpr int kStages = 3;
constexpr int kTileRowBytes = RowBytes(kTileColumns);
constexpr int kTileBytes = kTileRows * kTileRowBytes;

template <int kRankTiles, bool kAlongColumns>
struct Weights {
  static constexpr int kRowBytes = kAlongColumns ? kTileRowBytes : RankRowBytes(kRankTiles);
  static constexpr int kRows = kAlongColumns ? 8 * kRankTiles : kTileColumns;
  static constexpr int kVectors = kAlongColumns ? kRowVectors : kRankTiles;  // of a row
  static constexpr int kBytes = kRows * kRowBytes;
};

// Tiles of columns, piece by piece.
struct ColumnSteps {
  PieceWalk piece;
  int tiles, tile = 0;

  __device__ __forceinline__ ColumnSteps(const GroupedRows& of, int64_t begin)
      : piece(of.offsets, of.experts, begin, begin + kTileRows),
        tiles((of.columns + kTileColumns - 1) / kTileColumns) {}
  __device__ __forceinline__ bool Has() const { return piece.Has(); }
  __device__ __forceinline__ bool IsLast() const { return tile + 1 == tiles; }
  __device__ __forceinline__ void Next() {
    if (!IsLast()) {
      ++tile;
      return;
    }
    tile = 0;
    piece.Next();
  }
};

template <int kRankTiles, bool kAlongColumns>
class Block {
 public:
  using W = Weights<kRankTiles, kAlongColumns>;
  static constexpr int kStageBytes = kTileBytes + W::kBytes;

  __device__ __forceinline__ Block(const GroupedProjection& pass, unsigned char* shared)
      : pass_(pass),
        of_(pass.of),
        lane_(threadIdx.x % kWarp),
        warp_(threadIdx.x / kWarp),
        first_row_(int64_t{blockIdx.x} * kTileRows),
        stages_(SharedAddress(shared)) {}

  __device__ __forceinline__ void Run() {
    ColumnSteps copied(of_, first_row_);
    for (int stage = 0; stage + 1 < kStages; ++stage) CopyStage(stage, &copied);
    float p[kRankTiles][4] = {};
    int step = 0;
    for (ColumnSteps now(of_, first_row_); now.Has(); now.Next(), ++step) {
      WaitForCopies<kStages - 2>();
      __syncthreads();
      CopyStage((step + kStages - 1) % kStages, &copied);
      const int64_t row = first_row_ + 16 * warp_;
      if (row >= now.piece.end() || row + 16 <= now.piece.begin()) continue;
      MultiplyStage(stages_ + step % kStages * kStageBytes, p);
      if (now.IsLast()) Store(now.piece, p);
    }
    FillBehind();
  }

 private:
  // One group of copies, even behind the last tile.
  __device__ __forceinline__ void CopyStage(int stage, ColumnSteps* at) {
    if (at->Has()) {
      const uint32_t to = stages_ + stage * kStageBytes;
      const int column = at->tile * kTileColumns;
      CopyRows(to, at->piece, column);
      CopyWeights(to + kTileBytes, at->piece.segment(), column);
      at->Next();
    }
    CommitCopies();
  }

  __device__ __forceinline__ void CopyRows(uint32_t to, const PieceWalk& piece, int column) {
    const auto* x = static_cast<const bf16*>(pass_.x);
    const int at = column + static_cast<int>(threadIdx.x) % kRowVectors * kVector<bf16>;
    to += 16 * (threadIdx.x % kRowVectors);
#pragma unroll
    for (int i = threadIdx.x / kRowVectors; i < kTileRows; i += kThreads / kRowVectors) {
      const int64_t row = first_row_ + i;
      if (row < piece.begin() || row >= piece.end()) continue;
      const bool valid = at < of_.columns;
      CopyAsync16(to + i * kTileRowBytes, x + (valid ? row * of_.columns + at : 0), valid);
    }
  }

  __device__ __forceinline__ void CopyWeights(uint32_t to, int expert, int column) {
    const auto* w = static_cast<const bf16*>(pass_.w) + int64_t{expert} * of_.rank * of_.columns;
    for (int i = threadIdx.x; i < W::kRows * W::kVectors; i += kThreads) {
      const int row = i / W::kVectors, vector = i % W::kVectors;
      const int rank = kAlongColumns ? row : 8 * vector;
      const int at = column + (kAlongColumns ? 8 * vector : row);
      const bool valid = rank < of_.rank && at < of_.columns;
      const int64_t from =
          kAlongColumns ? int64_t{rank} * of_.columns + at : int64_t{at} * of_.rank + rank;
      CopyAsync16(to + row * W::kRowBytes + 16 * vector, w + (valid ? from : 0), valid);
    }
  }

  __device__ __forceinline__ void MultiplyStage(uint32_t stage, float (&p)[kRankTiles][4]) {
    const uint32_t x = stage + (16 * warp_ + lane_ % 16) * kTileRowBytes + lane_ / 16 * 16;
#pragma unroll
    for (int k = 0; k < kTileColumns; k += 16) {
      uint32_t a[4], b[kRankTiles][2];
      LoadBlocks4(x + kBf16Bytes * k, a);
      LoadRankBlocks<kRankTiles, kAlongColumns>(stage + kTileBytes, W::kRowBytes, k, lane_, b);
#pragma unroll
      for (int i = 0; i < kRankTiles; ++i) MultiplyAdd(p[i], a, b[i][0], b[i][1]);
    }
  }

  __device__ __forceinline__ void Store(const PieceWalk& piece, float (&p)[kRankTiles][4]) {
    const int64_t row = first_row_ + 16 * warp_ + lane_ / 4;
#pragma unroll
    for (int i = 0; i < kRankTiles; ++i) {
      const int rank = 8 * i + lane_ % 4 * 2;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t at = row + 8 * half;
        if (rank < of_.rank && at >= piece.begin() && at < piece.end()) {
          *reinterpret_cast<__nv_bfloat162*>(static_cast<bf16*>(pass_.p) + at * of_.rank + rank) =
              __floats2bfloat162_rn(pass_.scale * p[i][2 * half], pass_.scale * p[i][2 * half + 1]);
        }
        p[i][2 * half] = p[i][2 * half + 1] = 0;
      }
    }
  }

  __device__ __forceinline__ void FillBehind() {
    const int64_t vectors = of_.rank / kVector<bf16>;
    const int64_t behind = __ldg(of_.offsets + of_.experts);
    const int64_t begin = behind > first_row_ ? behind : first_row_;
    const int64_t end = min(first_row_ + kTileRows, of_.rows);
    auto* p = reinterpret_cast<uint4*>(pass_.p);
    for (int64_t i = begin * vectors + threadIdx.x; i < end * vectors; i += kThreads) p[i] = {};
  }

  const GroupedProjection& pass_;
  const GroupedRows& of_;
  const int lane_, warp_;
  const int64_t first_row_;
  const uint32_t stages_;  // shared memory
};

template <int kRankTiles, bool kAlongColumns>
__global__ void __launch_bounds__(kThreads)
    GroupedProjectionKernel(const __grid_constant__ GroupedProjection pass) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextStart();
  WaitForPrevious();
  Block<kRankTiles, kAlongColumns>(pass, shared).Run();
}

template <int kRankTiles, bool kAlongColumns>
void Launch(const GroupedProjection& pass, const char* op, Stream* stream) {
  constexpr int kBytes = kStages * Block<kRankTiles, kAlongColumns>::kStageBytes;
  const auto kernel = GroupedProjectionKernel<kRankTiles, kAlongColumns>;
  AllowSharedMemory(kernel, kBytes, op);
  LaunchEarly(kernel, static_cast<unsigned>(CeilDiv(pass.of.rows, kTileRows)), kThreads, kBytes,
              Handle(stream), op, pass);
}

template <int kRankTiles>
void LaunchEither(const GroupedProjection& pass, const char* op, Stream* stream) {
  if (pass.along_columns) {
    Launch<kRankTiles, true>(pass, op, stream);
  } else {
    Launch<kRankTiles, false>(pass, op, stream);
  }
}

}  // namespace

void Project(const GroupedProjection& pass, const char* op, Stream* stream) {
  if (pass.of.rank <= 8) return LaunchEither<1>(pass, op, stream);
  if (pass.of.rank <= 16) return LaunchEither<2>(pass, op, stream);
  if (pass.of.rank <= 32) return LaunchEither<4>(pass, op, stream);
  if (pass.of.rank <= 64) return LaunchEither<8>(pass, op, stream);
  LaunchEither<16>(pass, op, stream);
}

}  // namespace coxswain::kernels::cuda
