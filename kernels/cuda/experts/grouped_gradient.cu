// G_e += scale X_e^T H_e over the rows of each expert, and P = p_scale X W_e of the same reading of
// X, for all experts in one launch.
//
// A block has a range of rows (grouped_gradient.cuh) and a slice of columns: as many rows as any
// other block, whatever the distribution. It streams them through stages of shared memory, and
// copies run ahead across the ends of segments. A warp keeps G of its columns, every eighth group
// of 32, in registers as long as rows are of one expert. Then it adds them to the gradient where
// the block had all of the segment, else stores them for grouped_gradient_sums.cu.
//
// With P a block has all columns, and W_e in shared memory: 16 rows a step, every warp sums over
// its columns, and the eight sums are added behind the next step's barrier. That reads X once for
// both; G of 2,048 columns takes 128 registers at rank 16, therefore no rank above it. Without P,
// slices are 512 columns (256 above rank 64), two blocks a multiprocessor up to rank 32, and most
// of the segments lie within a range: of 128 experts of 512 rows and 2,048 columns, 66 ranges of
// 993 rows.
//
// Bytes: 2 per element of X, read once; 8 per element of the gradient; 8 per partial sum, of which
// there are two G a range: 13 % of X for 132 ranges of 496 rows at rank 16, mostly in the L2 cache.
// Bitwise deterministic: tensor cores accumulate in float32 over the rows in order, and the cuts
// depend on the offsets and the number of multiprocessors alone. P's rows depend on no other row.
#include "kernels/cuda/experts/grouped_gradient.cuh"

#include <algorithm>

#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/segment_pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tensors/rank_blocks.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kGroupColumns = 32;
constexpr int kMostMultiprocessors = 160;  // that get blocks: the partials are bounded

// kGroups: of columns, of each warp. kP: with P.
template <int kRankTiles, int kGroups, int kStages, bool kP>
struct Shape {
  static constexpr int kRank = 8 * kRankTiles;
  static constexpr int kRows = kP ? 16 : 32;                         // of a step
  static constexpr int kColumns = kGroups * kWarps * kGroupColumns;  // of a slice
  static constexpr int kRankRow = RankRowBytes(kRankTiles);
  static constexpr int kHBytes = kRows * kRankRow;
  static constexpr int kPFloats = kP ? kWarps * kRows * kRank : 0;  // of a step, of two
};

// Columns that are copied: zeros behind the last.
__host__ __device__ constexpr int PaddedColumns(int columns) {
  return (columns + kGroupColumns - 1) / kGroupColumns * kGroupColumns;
}

template <typename S>
struct SharedLayout {
  int stage_bytes, weights, sums, bytes;

  __host__ __device__ SharedLayout(int columns, int stages, bool with_p)
      : stage_bytes(S::kRows * RowBytes(PaddedColumns(columns)) + S::kHBytes),
        weights(stages * stage_bytes),
        sums(weights + (with_p ? PaddedColumns(columns) * kBf16Bytes * S::kRank : 0)),
        bytes(sums + 2 * S::kPFloats * static_cast<int>(sizeof(float))) {}
};

// Steps of rows, piece by piece.
template <int kRows>
struct RowSteps {
  PieceWalk piece;
  int row;

  __device__ __forceinline__ RowSteps(const GroupedRows& of, int64_t begin, int64_t end)
      : piece(of.offsets, of.experts, begin, end), row(piece.begin()) {}
  __device__ __forceinline__ bool Has() const { return piece.Has(); }
  __device__ __forceinline__ bool IsFirst() const { return row == piece.begin(); }
  __device__ __forceinline__ bool IsLast() const { return row + kRows >= piece.end(); }
  __device__ __forceinline__ int Rows() const { return min(kRows, piece.end() - row); }
  __device__ __forceinline__ void Next() {
    if (!IsLast()) {
      row += kRows;
      return;
    }
    piece.Next();
    row = piece.begin();
  }
};

template <int kRankTiles, int kGroups, int kStages, bool kP>
class Block {
 public:
  using S = Shape<kRankTiles, kGroups, kStages, kP>;
  using Steps = RowSteps<S::kRows>;

  __device__ __forceinline__ Block(const GradientPass& pass, unsigned char* shared)
      : pass_(pass),
        of_(pass.of.of),
        lane_(threadIdx.x % kWarp),
        warp_(threadIdx.x / kWarp),
        first_column_(static_cast<int>(blockIdx.y) * S::kColumns),
        columns_(min(S::kColumns, of_.columns - first_column_)),
        x_row_bytes_(RowBytes(PaddedColumns(columns_))),
        begin_(blockIdx.x * pass.RangeRows()),
        end_(begin_ + pass.RangeRows()) {
    const SharedLayout<S> layout(columns_, kStages, kP);
    stage_bytes_ = layout.stage_bytes;
    stages_ = SharedAddress(shared);
    weights_ = stages_ + layout.weights;
    sums_ = reinterpret_cast<float*>(shared + layout.sums);
  }

  __device__ __forceinline__ void Run() {
    Steps copied(of_, begin_, end_);
    for (int stage = 0; stage + 1 < kStages; ++stage) CopyStage(stage, &copied);
    int step = 0, row = 0, rows = 0;  // the last two: of the step before
    for (Steps now(of_, begin_, end_); now.Has(); now.Next(), ++step) {
      if (kP && now.IsFirst()) CopyWeights(now.piece.segment());
      WaitForCopies<kStages - 2>();
      __syncthreads();
      CopyStage((step + kStages - 1) % kStages, &copied);
      const uint32_t x = stages_ + step % kStages * stage_bytes_;
      if constexpr (kP) {
        StoreP(step - 1, row, rows);
        AddToP(x, step);
        row = now.row;
        rows = now.Rows();
      }
      AddToG(x);
      if (now.IsLast()) StoreG(now.piece);
    }
    if constexpr (kP) {
      __syncthreads();
      StoreP(step - 1, row, rows);
    }
  }

 private:
  // One group of copies, even behind the last step. Rows and columns that are none are zeros.
  __device__ __forceinline__ void CopyStage(int stage, Steps* at) {
    if (at->Has()) {
      const uint32_t to = stages_ + stage * stage_bytes_;
      const int rows = at->Rows();
      const auto* x =
          static_cast<const bf16*>(pass_.of.x) + int64_t{at->row} * of_.columns + first_column_;
#pragma unroll
      for (int i = warp_; i < S::kRows; i += kWarps) {
        for (int column = 8 * lane_; column < PaddedColumns(columns_); column += 8 * kWarp) {
          const bool valid = i < rows && column < columns_;
          const int64_t from = int64_t{i} * of_.columns + column;
          CopyAsync16(to + i * x_row_bytes_ + kBf16Bytes * column, x + (valid ? from : 0), valid);
        }
      }
      CopyH(to + S::kRows * x_row_bytes_, at->row, rows);
      at->Next();
    }
    CommitCopies();
  }

  __device__ __forceinline__ void CopyH(uint32_t to, int row, int rows) {
    const auto* h = static_cast<const bf16*>(pass_.of.h) + int64_t{row} * of_.rank;
    for (int i = threadIdx.x; i < S::kRows * kRankTiles; i += kThreads) {
      const int at = i / kRankTiles, vector = i % kRankTiles;
      const bool valid = at < rows && 8 * vector < of_.rank;
      CopyAsync16(to + at * S::kRankRow + 16 * vector, h + (valid ? at * of_.rank + 8 * vector : 0),
                  valid);
    }
  }

  // Where vector `vector` of a column's ranks lies: eight columns are in different banks.
  static __device__ __forceinline__ int WeightPlace(int column, int vector) {
    return 16 * (column * kRankTiles + (kRankTiles == 2 ? vector ^ (column / 4 & 1) : vector));
  }

  // Has arrived for all warps behind the barrier of the step.
  __device__ __forceinline__ void CopyWeights(int expert) {
    __syncthreads();
    const auto* w = static_cast<const bf16*>(pass_.of.w) + int64_t{expert} * pass_.Elements();
    for (int i = threadIdx.x; i < PaddedColumns(columns_) * kRankTiles; i += kThreads) {
      const int column = i / kRankTiles, vector = i % kRankTiles;
      const bool valid = column < columns_;
      CopyAsync16(weights_ + WeightPlace(column, vector), w + (valid ? 8 * i : 0), valid);
    }
    CommitCopies();
    WaitForCopies<0>();
  }

  __device__ __forceinline__ float* SumsOf(int step) { return sums_ + step % 2 * S::kPFloats; }

  // The warp's columns of P of a step, [16, ranks].
  __device__ __forceinline__ void AddToP(uint32_t x, int step) {
    float p[kRankTiles][4] = {};
    const uint32_t from = x + lane_ % 16 * x_row_bytes_ + lane_ / 16 * 16;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int group = (i * kWarps + warp_) * kGroupColumns;
      if (group >= columns_) break;
#pragma unroll
      for (int k = 0; k < kGroupColumns; k += 16) {
        uint32_t a[4], b[4];
        LoadBlocks4(from + kBf16Bytes * (group + k), a);
        const int column = group + k + lane_ % 16;
        if constexpr (kRankTiles == 2) {
          LoadBlocks4Transposed(weights_ + WeightPlace(column, lane_ / 16), b);
          MultiplyAdd(p[1], a, b[2], b[3]);
        } else {
          LoadBlocks2Transposed(weights_ + WeightPlace(column, 0),
                                reinterpret_cast<uint32_t(&)[2]>(b));
        }
        MultiplyAdd(p[0], a, b[0], b[1]);
      }
    }
    float* to = SumsOf(step) + (warp_ * 16 + lane_ / 4) * S::kRank + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRankTiles; ++i) {
      *reinterpret_cast<float2*>(to + 8 * i) = make_float2(p[i][0], p[i][1]);
      *reinterpret_cast<float2*>(to + 8 * S::kRank + 8 * i) = make_float2(p[i][2], p[i][3]);
    }
  }

  // The sums of all warps; of a step that all have left.
  __device__ __forceinline__ void StoreP(int step, int row, int rows) {
    const int i = static_cast<int>(threadIdx.x);
    if (i >= rows * S::kRank) return;
    const float* sums = SumsOf(step) + i;
    float sum = sums[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) sum += sums[warp * 16 * S::kRank];
    static_cast<bf16*>(pass_.of.p)[int64_t{row} * S::kRank + i] =
        FromFloat<bf16>(pass_.of.p_scale * sum);
  }

  __device__ __forceinline__ void AddToG(uint32_t x) {
    const uint32_t from =
        x + (lane_ / 16 * 8 + lane_ % 8) * x_row_bytes_ + kBf16Bytes * (lane_ / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < S::kRows; k += 16) {
      uint32_t h[kRankTiles][2];
      LoadRankBlocks<kRankTiles, false>(x + S::kRows * x_row_bytes_, S::kRankRow, k, lane_, h);
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        const int group = (i * kWarps + warp_) * kGroupColumns;
        if (group >= columns_) break;
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          uint32_t a[4];
          LoadBlocks4Transposed(from + k * x_row_bytes_ + kBf16Bytes * (group + 16 * m), a);
#pragma unroll
          for (int r = 0; r < kRankTiles; ++r) MultiplyAdd(g_[i][m][r], a, h[r][0], h[r][1]);
        }
      }
    }
  }

  // And clears it.
  __device__ __forceinline__ void StoreG(const PieceWalk& piece) {
    const int64_t first = piece.segment() * pass_.Elements();
    if (!piece.IsWholeSegment()) {
      PutG<false>(pass_.Partial(static_cast<int>(blockIdx.x), piece.begin() == begin_));
    } else if (pass_.of.grad_dtype == DType::kFloat32) {
      PutG<true>(static_cast<float*>(pass_.of.gradient) + first);
    } else {
      PutG<true>(static_cast<bf16*>(pass_.of.gradient) + first);
    }
  }

  // The lane's sums of a group of columns in order: where sum n lies in an expert's gradient, -1
  // where that has no such element.
  static constexpr int kGroupSums = 2 * kRankTiles * 4;
  __device__ __forceinline__ int Place(int i, int n) const {
    const int m = n / (kRankTiles * 4), r = n / 4 % kRankTiles, j = n % 4;
    const int column = (i * kWarps + warp_) * kGroupColumns + 16 * m + j / 2 * 8 + lane_ / 4;
    const int rank = 8 * r + lane_ % 4 * 2 + j % 2;
    if (column >= columns_ || rank >= of_.rank) return -1;
    const int at = first_column_ + column;
    return pass_.of.along_columns ? rank * of_.columns + at : at * of_.rank + rank;
  }

  // kAdd: all loads of a batch are under way before the first is needed.
  template <bool kAdd, typename Grad>
  __device__ __forceinline__ void PutG(Grad* to) {
    constexpr int kBatch = kP || kGroupSums < 16 ? 8 : 16;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
#pragma unroll
      for (int first = 0; first < kGroupSums; first += kBatch) {
        Grad old[kBatch] = {};
        if constexpr (kAdd) {
#pragma unroll
          for (int n = 0; n < kBatch; ++n) {
            const int at = Place(i, first + n);
            if (at >= 0) old[n] = to[at];
          }
        }
#pragma unroll
        for (int n = 0; n < kBatch; ++n) {
          const int at = Place(i, first + n);
          float& sum = g_[i][(first + n) / (kRankTiles * 4)][(first + n) / 4 % kRankTiles][n % 4];
          const float value = kAdd ? fmaf(pass_.of.scale, sum, ToFloat(old[n])) : sum;
          if (at >= 0) to[at] = FromFloat<Grad>(value);
          sum = 0;
        }
      }
    }
  }

  const GradientPass& pass_;
  const GroupedRows& of_;
  const int lane_, warp_;
  const int first_column_, columns_, x_row_bytes_;
  const int64_t begin_, end_;  // rows of the range
  int stage_bytes_;
  uint32_t stages_, weights_;  // shared memory
  float* sums_;
  float g_[kGroups][2][kRankTiles][4] = {};
};

template <int kRankTiles, int kGroups, int kStages, bool kP>
__global__ void __launch_bounds__(kThreads, !kP && kRankTiles <= 4 ? 2 : 1)
    GroupedGradientKernel(const __grid_constant__ GradientPass pass) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextStart();
  WaitForPrevious();
  Block<kRankTiles, kGroups, kStages, kP>(pass, shared).Run();
}

template <int kRankTiles, int kGroups, int kStages, bool kP>
void Launch(const GradientPass& pass, const char* op, Stream* stream) {
  using S = Shape<kRankTiles, kGroups, kStages, kP>;
  const int columns = pass.of.of.columns;
  const int bytes = SharedLayout<S>(std::min(columns, S::kColumns), kStages, kP).bytes;
  const auto kernel = GroupedGradientKernel<kRankTiles, kGroups, kStages, kP>;
  AllowSharedMemory(kernel, bytes, op);
  const dim3 grid(static_cast<unsigned>(pass.ranges),
                  static_cast<unsigned>(CeilDiv(columns, S::kColumns)));
  LaunchEarly(kernel, grid, kThreads, static_cast<size_t>(bytes), Handle(stream), op, pass);
}

constexpr int kFusedGroups = 8;

template <int kRankTiles, int kStages>
bool FusedFits(int columns) {
  using S = Shape<kRankTiles, kFusedGroups, kStages, true>;
  return columns <= S::kColumns &&
         SharedLayout<S>(columns, kStages, true).bytes + 1024 <= SharedMemoryOfMultiprocessor();
}

template <int kRankTiles>
void LaunchFused(const GradientPass& pass, const char* op, Stream* stream) {
  if (FusedFits<kRankTiles, 3>(pass.of.of.columns)) {
    Launch<kRankTiles, kFusedGroups, 3, true>(pass, op, stream);
  } else {
    Launch<kRankTiles, kFusedGroups, 2, true>(pass, op, stream);
  }
}

void LaunchAlone(const GradientPass& pass, const char* op, Stream* stream) {
  if (pass.of.of.rank <= 8) return Launch<1, 2, 3, false>(pass, op, stream);
  if (pass.of.of.rank <= 16) return Launch<2, 2, 3, false>(pass, op, stream);
  if (pass.of.of.rank <= 32) return Launch<4, 2, 3, false>(pass, op, stream);
  if (pass.of.of.rank <= 64) return Launch<8, 2, 3, false>(pass, op, stream);
  Launch<16, 1, 3, false>(pass, op, stream);
}

// As many as give every multiprocessor its blocks, of 64 rows at least.
int Ranges(const GroupedRows& of, bool fused) {
  const int multiprocessors = std::min(Multiprocessors(), kMostMultiprocessors);
  const int blocks = multiprocessors * (fused || of.rank > 32 ? 1 : 2);
  const int64_t slices = fused ? 1 : CeilDiv(of.columns, of.rank <= 64 ? 512 : 256);
  return static_cast<int>(
      std::clamp<int64_t>(blocks / slices, 1, CeilDiv(std::max<int64_t>(of.rows, 1), 64)));
}

}  // namespace

bool FusesProjection(const GroupedRows& of) {
  return (of.rank == 8 && FusedFits<1, 2>(of.columns)) ||
         (of.rank == 16 && FusedFits<2, 2>(of.columns));
}

int64_t GradientPartialsBytes(const GroupedRows& of, bool fused) {
  return int64_t{2} * Ranges(of, fused) * of.columns * of.rank *
         static_cast<int64_t>(sizeof(float));
}

void AddGradient(const GroupedGradient& gradient, const char* op, Stream* stream) {
  const bool fused = gradient.p != nullptr;
  const GradientPass pass{gradient, Ranges(gradient.of, fused)};
  if (!fused) {
    LaunchAlone(pass, op, stream);
  } else if (gradient.of.rank == 8) {
    LaunchFused<1>(pass, op, stream);
  } else {
    LaunchFused<2>(pass, op, stream);
  }
  SumGradientPartials(pass, op, stream);
}

}  // namespace coxswain::kernels::cuda
