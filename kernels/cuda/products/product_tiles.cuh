// Tiles of a product in bfloat16 with float32 sums on the tensor cores of compute capability 9.0a,
// for kernels that use a tile where it is made. Operands may be codes in FP8 too (OfCodes): two of
// them stand where one value stands, so that a matrix of codes is brought as one of half as many
// values, and a step of 16 values is one of 32 codes.
//
// A block computes tiles of 128 x 256: warpgroup 1 the upper 64 rows, warpgroup 2 the lower ones,
// in 128 registers of each thread. One thread of warpgroup 0 brings operands, 32 or 64 values of k
// at a time, into a ring of stages; the rest of that warpgroup is free to move what the kernel does
// with tiles. Two blocks are a cluster whose tiles lie below each other: each brings its own rows
// of the first operand and one half of the second operand for both, which saves a third of the
// reads from the L2 cache.
//
// The sum over k may go on, behind the steps that all tiles have, with products of other operands,
// and a tile may have its first half of the columns alone, at half the cost: what a kernel's terms
// say (WholeTiles).
//
// A warpgroup keeps a finished tile, rounded, in 64 more registers and works on it in slices
// between the steps of the next tile's product: the tensor cores do not wait for it.
//
// The grid is as many clusters as run at once. Clusters take the tiles in turns, in an order that
// sweeps the columns for a group of row tiles, so that operands come from the L2 cache.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_PRODUCT_TILES_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_PRODUCT_TILES_CUH_

#include <algorithm>

#include "kernels/cuda/stream.h"
#include "kernels/cuda/tiles/box_blocks.cuh"
#include "kernels/cuda/tiles/cluster.cuh"
#include "kernels/cuda/tiles/ring_place.cuh"
#include "kernels/cuda/tiles/tma.cuh"
#include "kernels/cuda/tiles/wgmma.cuh"
#include "kernels/cuda/vector.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kTileRows = 128;
inline constexpr int kTileColumns = 256;
inline constexpr int kProductCluster = 2;
inline constexpr int kProductThreads = 384;
// Warpgroup 0 moves, 1 and 2 multiply 64 rows each. Copies for both blocks name them by a mask
// of 3.
static_assert(kProductThreads == 3 * 128 && kTileRows == 2 * 64 && kProductCluster == 2);

struct TileGrid {
  int row_tiles = 0;  // of a cluster: 256 rows each
  int column_tiles = 0;
  int group = 16;  // row tiles that the columns are swept for
  int k_steps = 0;
};

// Of a block, in tiles.
struct Tile {
  int row, column;
};

// kStages stages of kDepth values of k: the rows of the first operand, then the second operand.
template <int kStages, int kDepth>
struct Operands {
  // A multiplier waits for a stage before it gives back the one before.
  static_assert(kStages >= 2);
  static constexpr unsigned kFirstBytes = kTileRows * kDepth * kBf16Bytes;
  static constexpr unsigned kSecondBytes = kTileColumns * kDepth * kBf16Bytes;
  static constexpr unsigned kStageBytes = kFirstBytes + kSecondBytes;
  static constexpr unsigned kHalfBytes = kSecondBytes / 2;  // of the second operand: 128 columns

  unsigned char stages[kStages][kStageBytes];  // at a multiple of 1024
};

template <int kStages>
struct OperandBarriers {
  uint64_t full[kStages];   // the stage's operands are here
  uint64_t empty[kStages];  // both blocks have multiplied them
};

// Of a tile that are multiplied.
enum class Columns { kAll, kFirstHalf };

// A step behind the k_steps that all tiles have: `depth` values of k, a multiple of 16 and at most
// a stage's, from `k` on of what the kernel's terms call `member`.
struct AddedStep {
  int member, k, depth;
};

// Terms of a sum over k alone. What a kernel's own terms say of a tile must depend on its column
// only: both blocks of a cluster take the same steps. They may have `float2 Factors(tile)`, by
// which sums are multiplied one after the other, `float2 Addend(tile, j)`, what the pair j of a
// thread's columns in the order of Multiply gets before it is rounded, and `int LeftOut(tile)`, the
// first values of k of the first step that are not multiplied, a multiple of 16 below a stage's.
struct WholeTiles {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  template <typename AnyTile>
  __device__ __forceinline__ Columns Of(const AnyTile&) const {
    return Columns::kAll;
  }
  // Calls add(AddedStep) for each step behind the first k_steps.
  template <typename AnyTile, typename Add>
  __device__ __forceinline__ void ForAdded(const AnyTile&, const Add&) const {}
  // Starts the copies of such a step to where its operands lie; those of the second operand are for
  // both blocks, from one of them.
  template <typename AnyTile>
  __device__ __forceinline__ void Load(const AnyTile&, const AddedStep&, void*, unsigned char*,
                                       uint64_t*) const {}
#endif
};

// What products read; launches name it where no body is compiled.
struct OfBf16;
template <bool kFirstE5M2>
struct OfCodes;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ Tile TileAt(const TileGrid& grid, int i) {
  const int group_tiles = grid.group * grid.column_tiles;
  const int first = i / group_tiles * grid.group, within = i % group_tiles;
  const int height = min(grid.group, grid.row_tiles - first);
  return {(first + within % height) * kProductCluster + static_cast<int>(ClusterRank()),
          within / height};
}

// The tiles of this block, one after another. A kernel's own grid has such a walk and its TilesOf:
// both blocks of a cluster take the same steps at the same time.
class TileWalk {
 public:
  __device__ __forceinline__ explicit TileWalk(const TileGrid& grid)
      : grid_(grid), index_(static_cast<int>(blockIdx.x) / kProductCluster) {
    left_ = (grid.row_tiles * grid.column_tiles + Clusters() - 1 - index_) / Clusters();
  }
  __device__ __forceinline__ bool Has() const { return left_ > 0; }
  __device__ __forceinline__ void Next() {
    --left_;
    index_ += Clusters();
  }
  __device__ __forceinline__ Tile Now() const { return TileAt(grid_, index_); }
  // Of the sum of tile Now(), those behind them not counted; at least 1.
  __device__ __forceinline__ int Steps() const { return grid_.k_steps; }

 private:
  static __device__ __forceinline__ int Clusters() {
    return static_cast<int>(gridDim.x) / kProductCluster;
  }

  const TileGrid& grid_;
  int index_, left_;
};

__device__ __forceinline__ TileWalk TilesOf(const TileGrid& grid) { return TileWalk(grid); }

// Calls use(tile) for every tile of this block.
template <typename Grid, typename Use>
__device__ __forceinline__ void ForTiles(const Grid& grid, const Use& use) {
  for (auto walk = TilesOf(grid); walk.Has(); walk.Next()) use(walk.Now());
}

// The steps of `rank` values of k.
template <int kDepth, typename Add>
__device__ __forceinline__ void ForRank(int member, int rank, const Add& add) {
  for (int k = 0; k < rank; k += kDepth) {
    add(AddedStep{member, k, min(kDepth, (rank - k + 15) / 16 * 16)});
  }
}

// By one thread.
template <int kStages>
__device__ __forceinline__ void InitOperandBarriers(OperandBarriers<kStages>* barriers) {
  for (int s = 0; s < kStages; ++s) {
    InitBarrier(&barriers->full[s]);
    InitBarrier(&barriers->empty[s], 2 * 4 * kProductCluster);  // a warp each
  }
}

// By one thread: load(tile, k, first, second, barrier) starts the copies of a stage, from value k
// of the sum on, to where its two operands lie.
template <int kStages, int kDepth, typename Grid, typename Terms, typename Load>
__device__ __forceinline__ void LoadOperands(const Grid& grid, const Terms& terms,
                                             Operands<kStages, kDepth>* operands,
                                             OperandBarriers<kStages>* barriers, const Load& load) {
  using Stage = Operands<kStages, kDepth>;
  RingPlace<kStages> place;
  const auto fill = [&](Columns columns, const auto& copy) {
    unsigned char* stage = operands->stages[place.stage];
    uint64_t* full = &barriers->full[place.stage];
    WaitForOwnPhase(&barriers->empty[place.stage], place.phase ^ 1);
    ExpectBytes(full, columns == Columns::kAll ? Stage::kStageBytes
                                               : Stage::kStageBytes - Stage::kHalfBytes);
    copy(stage, stage + Stage::kFirstBytes, full);
    place.Advance();
  };
  for (auto walk = TilesOf(grid); walk.Has(); walk.Next()) {
    const auto tile = walk.Now();
    const Columns columns = terms.Of(tile);
    for (int step = 0; step < walk.Steps(); ++step) {
      fill(columns, [&](unsigned char* first, unsigned char* second, uint64_t* full) {
        load(tile, step * kDepth, first, second, full);
      });
    }
    terms.ForAdded(tile, [&](const AddedStep& step) {
      fill(columns, [&](unsigned char* first, unsigned char* second, uint64_t* full) {
        terms.Load(tile, step, first, second, full);
      });
    });
  }
}

// This block's half of a second operand that lies across k, in boxes of kDepth rows by 64 columns,
// for both blocks. Values of k from `k` on, columns from `column` on.
template <int kDepth>
__device__ __forceinline__ void LoadAcross(unsigned char* to, const TensorMap& map, int k,
                                           int column, Columns columns, uint64_t* barrier) {
  constexpr int kBoxColumns = 64, kBoxes = kTileColumns / kBoxColumns / kProductCluster;
  const int rank = static_cast<int>(ClusterRank());
  if (columns == Columns::kFirstHalf && rank > 0) return;
  for (int box = rank * kBoxes; box < (rank + 1) * kBoxes; ++box) {
    LoadBoxForAll(to + box * kBoxColumns * kDepth * kBf16Bytes, map, column + box * kBoxColumns, k,
                  barrier, 3);
  }
}

// Operands in bfloat16.
struct OfBf16 {
  template <bool kAcross, bool kFirstAcross, int kSums>
  static __device__ __forceinline__ void MultiplyStep(float (&sums)[kSums], uint64_t a, uint64_t b,
                                                      bool add) {
    Multiply<kAcross, kFirstAcross>(sums, a, b, add);
  }
};
// Operands along k in FP8: the second in E4M3, the first in it or in E5M2.
template <bool kFirstE5M2>
struct OfCodes {
  template <bool kAcross, bool kFirstAcross, int kSums>
  static __device__ __forceinline__ void MultiplyStep(float (&sums)[kSums], uint64_t a, uint64_t b,
                                                      bool add) {
    static_assert(!kAcross && !kFirstAcross);
    MultiplyCodes<kFirstE5M2>(sums, a, b, add);
  }
};

// One of the two warpgroups that multiply. kAcross, kFirstAcross: whether the second, the first
// operand lies across k.
template <bool kAcross, int kStages, int kDepth, bool kFirstAcross = false,
          typename Elements = OfBf16>
class Multiplier {
 public:
  using Stage = Operands<kStages, kDepth>;

  __device__ __forceinline__ Multiplier(const Stage* operands, OperandBarriers<kStages>* barriers,
                                        int half)
      : barriers_(barriers) {
    const unsigned char* first = operands->stages[0];
    const unsigned char* second = first + Stage::kFirstBytes;
    first += half * 64 * kDepth * kBf16Bytes;
    a_ = kFirstAcross ? RowsAcrossK<kDepth>(first) : RowsAlongK<kDepth>(first);
    b_ = kAcross ? RowsAcrossK<kDepth>(second) : RowsAlongK<kDepth>(second);
  }

  // Calls work->Fetch(part, s), work->Finish(part, s, tile), s < Work::kSlices, part <
  // Work::kParts, for every tile [64, 256] of this warpgroup; between the two a step of the next
  // tile is put under way. tile[2 j + h], rounded, holds the pair of rows and columns that Multiply
  // names for 4 j + 2 h, counted from the part's first slice, each of which takes j, j + 1.
  template <typename Grid, typename Terms, typename Work>
  __device__ __forceinline__ void Run(const Grid& grid, const Terms& terms, Work* work) {
    uint32_t tile[64];
    auto walk = TilesOf(grid);
    if (!walk.Has()) return;
    auto next = walk.Now();
    for (bool held = false; walk.Has(); held = true) {
      const auto now = next;
      SumTile(walk.Steps(), terms, now, held, tile, work, [&] {
        walk.Next();
        if (walk.Has()) next = walk.Now();
      });
    }
#pragma unroll 1
    for (int part = 0; part < Work::kParts; ++part) {
#pragma unroll
      for (int s = 0; s < Work::kSlices; ++s) {
        work->Fetch(part, s);
        work->Finish(part, s, tile);
      }
      Shift<Work::kSlices>(tile);
    }
  }

  // Calls use(sums) for every tile, in the order of Multiply: the sums that Run would round.
  // Nothing is multiplied meanwhile but by the other warpgroup, as far as the stages go.
  template <typename Grid, typename Terms, typename Use>
  __device__ __forceinline__ void RunInFloat32(const Grid& grid, const Terms& terms,
                                               const Use& use) {
    for (auto walk = TilesOf(grid); walk.Has(); walk.Next()) {
      const auto tile = walk.Now();
      const Columns of = terms.Of(tile);
      float sums[128];
      int k = FirstSteps(terms, tile, of, sums);
#pragma unroll 1
      for (; k < walk.Steps(); ++k) Step<kDepth>(sums, of, 0, kDepth, k > 0);
      WaitForProducts<0>();
      Release(previous_);
      Finished(sums);
      use(sums);
    }
  }

 private:
  static constexpr uint64_t kFirstStep = kFirstAcross ? kStepAcrossK : kStepAlongK;
  static constexpr uint64_t kSecondStep = kAcross ? kStepAcrossK : kStepAlongK;

  // What is in `tile`, where it is held, is worked on between the steps, then replaced by the sums
  // of the next one; where that has its first half of the columns alone, what stands for the others
  // is of no meaning. Calls look_ahead() while the last products run. The loops stay loops: with
  // the steps unrolled their code does not fit into the instruction caches.
  template <typename Terms, typename AnyTile, typename Work, typename LookAhead>
  __device__ __forceinline__ void SumTile(int steps, const Terms& terms, const AnyTile& next,
                                          bool held, uint32_t (&tile)[64], Work* work,
                                          const LookAhead& look_ahead) {
    constexpr int kSlices = Work::kSlices, kAll = Work::kParts * kSlices;
    const Columns of = terms.Of(next);
    float sums[128];
    if (held) work->Fetch(0, 0);
    int k = FirstSteps(terms, next, of, sums);
#pragma unroll 1
    for (int part = 0; part < Work::kParts; ++part) {
#pragma unroll
      for (int s = 0; s < kSlices; ++s) {
        const int due = (part * kSlices + s) * steps / kAll + 1;
#pragma unroll 1
        for (; k < due; ++k) Step<kDepth>(sums, of, 0, kDepth, k > 0);
        if (!held) continue;
        work->Finish(part, s, tile);
        if (s + 1 < kSlices) {
          work->Fetch(part, s + 1);
        } else if (part + 1 < Work::kParts) {
          work->Fetch(part + 1, 0);
        }
      }
      Shift<kSlices>(tile);
    }
#pragma unroll 1
    for (; k < steps; ++k) Step<kDepth>(sums, of, 0, kDepth, k > 0);
    terms.ForAdded(next, [&](const AddedStep& step) { Step<16>(sums, of, 0, step.depth, true); });
    [[maybe_unused]] float2 factors;
    if constexpr (requires { terms.Factors(next); }) factors = terms.Factors(next);
    look_ahead();
    WaitForProducts<0>();
    Release(previous_);
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      if constexpr (requires { terms.Factors(next); }) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[4 * j + i] = sums[4 * j + i] * factors.x * factors.y;
      }
      if constexpr (requires { terms.Addend(next, j); }) {
        const float2 addend = terms.Addend(next, j);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[4 * j + i] += i % 2 == 0 ? addend.x : addend.y;
      }
      tile[2 * j] = PackPair(sums[4 * j], sums[4 * j + 1]);
      tile[2 * j + 1] = PackPair(sums[4 * j + 2], sums[4 * j + 3]);
    }
  }
  // The next part comes first.
  template <int kSlices>
  static __device__ __forceinline__ void Shift(uint32_t (&tile)[64]) {
#pragma unroll
    for (int j = 0; j + 4 * kSlices < 64; ++j) tile[j] = tile[j + 4 * kSlices];
  }
  // The steps ahead of those that are alike: the first one, where the terms leave out values of it.
  template <typename Terms, typename AnyTile>
  __device__ __forceinline__ int FirstSteps(const Terms& terms, const AnyTile& tile, Columns of,
                                            float (&sums)[128]) {
    if constexpr (requires { terms.LeftOut(tile); }) {
      Step<16>(sums, of, terms.LeftOut(tile), kDepth, false);
      return 1;
    }
    return 0;
  }
  // The next stage's values of k in [from, to), kUnrolled at a time; `add` to what is there.
  template <int kUnrolled>
  __device__ __forceinline__ void Step(float (&sums)[128], Columns of, int from, int to, bool add) {
    WaitForOwnPhase(&barriers_->full[place_.stage], place_.phase);
    BeginProducts();
    const uint64_t offset = place_.stage * uint64_t{Stage::kStageBytes >> 4};
    if (of == Columns::kAll) {
      MultiplyStage<kUnrolled>(sums, offset, from, to, add);
    } else {
      MultiplyStage<kUnrolled>(reinterpret_cast<float(&)[64]>(sums), offset, from, to, add);
    }
    CommitProducts();
    WaitForProducts<1>();
    if (add) Release(previous_);
    previous_ = place_.stage;
    place_.Advance();
  }
  template <int kUnrolled, int kSums>
  __device__ __forceinline__ void MultiplyStage(float (&sums)[kSums], uint64_t offset, int from,
                                                int to, bool add) {
#pragma unroll 1
    for (int done = from; done < to; done += kUnrolled) {
#pragma unroll
      for (int i = 0; i < kUnrolled / 16; ++i) {
        const int sixteenth = done / 16 + i;
        Elements::template MultiplyStep<kAcross, kFirstAcross>(
            sums, a_ + offset + sixteenth * kFirstStep, b_ + offset + sixteenth * kSecondStep,
            add || i > 0 || done > from);
      }
    }
  }
  __device__ __forceinline__ void Release(int stage) {
    const unsigned lane = threadIdx.x % 32;
    if (lane < kProductCluster) ArriveAt(&barriers_->empty[stage], lane);
  }

  OperandBarriers<kStages>* barriers_;
  uint64_t a_, b_;
  RingPlace<kStages> place_;
  int previous_ = 0;
};

#endif

// `tile_columns` of `columns` are a tile's; a step is `step` values of `depth`.
inline TileGrid MakeTileGrid(int64_t rows, int64_t columns, int tile_columns, int64_t depth,
                             int step) {
  return {.row_tiles = static_cast<int>(CeilDiv(rows, kTileRows * kProductCluster)),
          .column_tiles = static_cast<int>(CeilDiv(columns, tile_columns)),
          .k_steps = static_cast<int>(CeilDiv(depth, step))};
}

// As many clusters as run at once, or as there are tiles, at most `tiles`.
template <typename Kernel, typename... Args>
void LaunchProduct(Kernel kernel, int shared_bytes, int64_t tiles, cudaStream_t stream,
                   const char* op, const Args&... args) {
  AllowSharedMemory(kernel, shared_bytes, op);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {kProductCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(Multiprocessors() / kProductCluster * kProductCluster));
  config.blockDim = dim3(kProductThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int resident = 0;
  CheckCuda(cudaOccupancyMaxActiveClusters(&resident, kernel, &config), op);
  const int64_t clusters = std::min(tiles, int64_t{std::max(resident, 1)});
  config.gridDim = dim3(static_cast<unsigned>(clusters * kProductCluster));
  CheckCuda(cudaLaunchKernelEx(&config, kernel, args...), op);
}

template <typename Kernel, typename... Args>
void LaunchProduct(Kernel kernel, int shared_bytes, const TileGrid& grid, cudaStream_t stream,
                   const char* op, const Args&... args) {
  LaunchProduct(kernel, shared_bytes, int64_t{grid.row_tiles} * grid.column_tiles, stream, op,
                args...);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_PRODUCT_TILES_CUH_
