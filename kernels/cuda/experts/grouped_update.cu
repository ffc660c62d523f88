// Y += scale H W_e over the rows of each expert, for all experts in one launch.
//
// A block has 128 rows, a warp 64 columns (32 above rank 32), and W_e of those in registers.
// Nothing passes through shared memory: products are summed where Y is read and written 16 bytes at
// a time. For that the 32 columns of four products lie such that a lane's eight sums are of columns
// that follow each other: column l of product j is column 8 (l / 2) + 2 j + l % 2. The order of the
// ranks in a product is free; a lane takes four that follow each other. Where an expert's rows end
// inside the block's, the warp goes on with the next one's weights.
//
// Bytes: 4 per element of Y, read and written once; H for every 64 columns, R / 128 as many, and
// W_e, R / 256, from the caches. Bitwise deterministic: a row's bits do not depend on other rows.
#include <algorithm>

#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/experts/grouped_low_rank.h"
#include "kernels/cuda/experts/segment_pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles/mma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTileRows = 128;
constexpr int kGroupColumns = 32;

// kRankGroups: 16 ranks each, as far as `rank` goes.
template <int kRankGroups, bool kAlongColumns>
class Warp {
 public:
  static constexpr int kGroups = kRankGroups <= 2 ? 2 : 1;
  static constexpr int kColumns = kGroups * kGroupColumns;
  static constexpr int kUnroll = kRankGroups <= 4 ? 2 : 1;  // products of 16 rows under way

  __device__ __forceinline__ Warp(const GroupedUpdate& pass, int first_column)
      : pass_(pass),
        of_(pass.of),
        row_(threadIdx.x % kWarp / 4),
        quarter_(threadIdx.x % 4),
        first_column_(first_column) {}

  __device__ __forceinline__ void Run() {
    const int64_t first_row = int64_t{blockIdx.x} * kTileRows;
    for (PieceWalk piece(of_.offsets, of_.experts, first_row, first_row + kTileRows); piece.Has();
         piece.Next()) {
      LoadWeights(piece.segment());
      for (int row = piece.begin(); row < piece.end(); row += 16 * kUnroll) {
        AddRows(row, piece.end());
      }
    }
  }

 private:
  using Values = Vector<bf16>;

  __device__ __forceinline__ void LoadWeights(int expert) {
    const auto* w = static_cast<const bf16*>(pass_.w) + int64_t{expert} * of_.rank * of_.columns;
#pragma unroll
    for (int k = 0; k < kRankGroups; ++k) {
      const int rank = 16 * k + 4 * quarter_;
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const int column = first_column_ + group * kGroupColumns + row_ / 2 * 8;
        if constexpr (kAlongColumns) {
          LoadAlong(w, rank, column, weights_[k][group]);
        } else {
          LoadAcross(w, rank, column + row_ % 2, weights_[k][group]);
        }
      }
    }
  }

  // Of W_e [columns, rank]: four ranks of a column.
  __device__ __forceinline__ void LoadAcross(const bf16* w, int rank, int column,
                                             uint32_t (&to)[4][2]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      uint2 ranks = {};
      if (rank < of_.rank && column + 2 * j < of_.columns) {
        ranks =
            __ldg(reinterpret_cast<const uint2*>(w + int64_t{column + 2 * j} * of_.rank + rank));
      }
      to[j][0] = ranks.x;
      to[j][1] = ranks.y;
    }
  }

  // Of W_e [rank, columns]: eight columns of each of four ranks, of which the lane's are even or
  // odd.
  __device__ __forceinline__ void LoadAlong(const bf16* w, int rank, int column,
                                            uint32_t (&to)[4][2]) {
    uint4 columns[4] = {};
    if (rank < of_.rank && column < of_.columns) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        columns[i] =
            __ldg(reinterpret_cast<const uint4*>(w + int64_t{rank + i} * of_.columns + column));
      }
    }
    const unsigned half = row_ % 2 == 0 ? 0x5410 : 0x7632;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 &low = columns[2 * i], &high = columns[2 * i + 1];
      to[0][i] = __byte_perm(low.x, high.x, half);
      to[1][i] = __byte_perm(low.y, high.y, half);
      to[2][i] = __byte_perm(low.z, high.z, half);
      to[3][i] = __byte_perm(low.w, high.w, half);
    }
  }

  // Rows [first, end), at most 16 kUnroll.
  __device__ __forceinline__ void AddRows(int first, int end) {
    const auto* h = static_cast<const bf16*>(pass_.h);
    auto* y = static_cast<bf16*>(pass_.y) + first_column_ + 8 * quarter_;
    uint2 ranks[kUnroll][kRankGroups][2] = {};
    typename Values::Raw raw[kUnroll][kGroups][2] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = first + 16 * u + 8 * half + row_;
        if (row >= end) continue;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
          if (!Has(group)) continue;
          raw[u][group][half] = Values::Fetch(y + row * of_.columns + group * kGroupColumns);
        }
#pragma unroll
        for (int k = 0; k < kRankGroups; ++k) {
          const int rank = 16 * k + 4 * quarter_;
          if (rank >= of_.rank) continue;
          ranks[u][k][half] = __ldg(reinterpret_cast<const uint2*>(h + row * of_.rank + rank));
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        float sums[4][4] = {};
        Multiply(ranks[u], group, sums);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = first + 16 * u + 8 * half + row_;
          if (row >= end || !Has(group)) continue;
          Values values;
          values.Unpack(raw[u][group][half]);
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            values.value[i] = fmaf(pass_.scale, sums[i / 2][2 * half + i % 2], values.value[i]);
          }
          values.Store(y + row * of_.columns + group * kGroupColumns);
        }
      }
    }
  }

  __device__ __forceinline__ void Multiply(const uint2 (&ranks)[kRankGroups][2], int group,
                                           float (&sums)[4][4]) const {
#pragma unroll
    for (int k = 0; k < kRankGroups; ++k) {
      const uint32_t a[4] = {ranks[k][0].x, ranks[k][1].x, ranks[k][0].y, ranks[k][1].y};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        MultiplyAdd(sums[j], a, weights_[k][group][j][0], weights_[k][group][j][1]);
      }
    }
  }

  // Whether the lane's eight columns of a group are columns of Y.
  __device__ __forceinline__ bool Has(int group) const {
    return first_column_ + group * kGroupColumns + 8 * quarter_ < of_.columns;
  }

  const GroupedUpdate& pass_;
  const GroupedRows& of_;
  const int row_, quarter_;  // of the lane in a product
  const int first_column_;
  uint32_t weights_[kRankGroups][kGroups][4][2];
};

template <int kRankGroups, bool kAlongColumns>
__global__ void __launch_bounds__(kThreads)
    GroupedUpdateKernel(const __grid_constant__ GroupedUpdate pass) {
  using Own = Warp<kRankGroups, kAlongColumns>;
  LetNextStart();
  WaitForPrevious();
  const unsigned warp = blockIdx.y * (kThreads / kWarp) + threadIdx.x / kWarp;
  const int column = static_cast<int>(warp) * Own::kColumns;
  if (column < pass.of.columns) Own(pass, column).Run();
}

template <int kRankGroups, bool kAlongColumns>
void Launch(const GroupedUpdate& pass, const char* op, Stream* stream) {
  constexpr int kColumns = Warp<kRankGroups, kAlongColumns>::kColumns * kThreads / kWarp;
  const dim3 grid(static_cast<unsigned>(CeilDiv(pass.of.rows, kTileRows)),
                  static_cast<unsigned>(CeilDiv(pass.of.columns, kColumns)));
  LaunchEarly(GroupedUpdateKernel<kRankGroups, kAlongColumns>, grid, kThreads, 0, Handle(stream),
              op, pass);
}

template <int kRankGroups>
void LaunchEither(const GroupedUpdate& pass, const char* op, Stream* stream) {
  if (pass.along_columns) {
    Launch<kRankGroups, true>(pass, op, stream);
  } else {
    Launch<kRankGroups, false>(pass, op, stream);
  }
}

}  // namespace

void Update(const GroupedUpdate& pass, const char* op, Stream* stream) {
  if (pass.of.rank <= 16) return LaunchEither<1>(pass, op, stream);
  if (pass.of.rank <= 32) return LaunchEither<2>(pass, op, stream);
  if (pass.of.rank <= 64) return LaunchEither<4>(pass, op, stream);
  LaunchEither<8>(pass, op, stream);
}

}  // namespace coxswain::kernels::cuda
