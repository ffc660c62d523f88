// Products on product_tiles.cuh whose tiles are written once, by the copy engine.
//
// A warp puts its part of 64 columns, rounded, into shared memory, where a thread of warpgroup 0
// for each of the other two stores them from two places in turns. Tiles whose second half lies
// outside take the first alone.
//
// Barriers: written[w][s] counts the four warps of warpgroup w, stored[w][s] the thread that
// stores. Use n of a slot ends phase n of both; the wait before use n is for phase n - 1 of
// `stored`.
//
// Bytes: 2 per element of the result, written; operands by every column or row of tiles, mostly
// from the L2 cache. Bitwise deterministic: a sum runs over k in order, in one warpgroup.
#ifndef COXSWAIN_KERNELS_CUDA_PRODUCTS_STORED_PRODUCT_CUH_
#define COXSWAIN_KERNELS_CUDA_PRODUCTS_STORED_PRODUCT_CUH_

#include "kernels/cuda/products/product_tiles.cuh"
#include "kernels/cuda/shared_address.cuh"
#include "kernels/cuda/tiles/mma.cuh"

namespace coxswain::kernels::cuda {

inline constexpr int kStoredStages = 4;
inline constexpr int kStoredDepth = 64;
// A tile is stored by chunks of a warpgroup's rows.
inline constexpr int kStoredColumns = 64;
inline constexpr unsigned kStoredChunkBytes = 64 * kStoredColumns * kBf16Bytes;
inline constexpr int kStoredChunks = kTileColumns / kStoredColumns;  // of a tile
inline constexpr int kStoredSlices = kStoredColumns / 16;            // of a chunk
inline constexpr int kStoredSlots = 2;  // chunks of a warpgroup in shared memory
inline constexpr int kHalfTileColumns = kTileColumns / 2;
using StoredStage = Operands<kStoredStages, kStoredDepth>;
// The parities of `written` and `stored` are those of a slot's use within its tile, not of all its
// uses: they agree when each tile takes an even number of phases of every slot.
static_assert(kStoredChunks % kStoredSlots == 0 && kStoredChunks / kStoredSlots % 2 == 0);

struct StoredMaps {
  TensorMap left, weight, result;
};

struct alignas(1024) StoredShared {
  StoredStage operands;
  unsigned char chunks[2][kStoredSlots][kStoredChunkBytes];  // of each warpgroup
  OperandBarriers<kStoredStages> barriers;
  uint64_t written[2][kStoredSlots];  // a chunk is complete
  uint64_t stored[2][kStoredSlots];   // and has been read
};
class StoredAsIs;  // launches name it where no body is compiled
// Dynamic shared memory starts at a multiple of 16.
inline constexpr int kStoredSharedBytes = sizeof(StoredShared) + 1024;
static_assert(kStoredSharedBytes <= 227 * 1024);

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of a tile of a result of so many columns.
template <typename AnyTile>
__device__ __forceinline__ Columns ColumnsWithin(const AnyTile& tile, int columns) {
  return tile.column * kTileColumns + kHalfTileColumns < columns ? Columns::kAll
                                                                 : Columns::kFirstHalf;
}

// The half of a second operand in rows that this block brings for both, rows [from, to) of the
// result's columns: zeros where the half lies before them, as behind.
__device__ __forceinline__ void LoadHalf(unsigned char* into, const TensorMap& map, int k,
                                         const Tile& tile, int from, int to, Columns of,
                                         uint64_t* barrier) {
  const int half = static_cast<int>(ClusterRank());
  if (half == 1 && of == Columns::kFirstHalf) return;
  const int column = tile.column * kTileColumns + half * kHalfTileColumns;
  LoadBoxForAll(into + half * StoredStage::kHalfBytes, map, k, (column < from ? to : column) - from,
                barrier, 3);
}

#endif

// Terms of x W^T + bias.
struct LinearTerms : WholeTiles {
  const bf16* bias;  // [columns]; null: none
  int columns;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr bool kAcross = false;

  __device__ __forceinline__ Columns Of(const Tile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  // While a warpgroup reads it, the other one multiplies.
  __device__ __forceinline__ float2 Addend(const Tile& tile, int j) const {
    const int column = tile.column * kTileColumns + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
    if (bias == nullptr || column >= columns) return {};
    const uint32_t pair = __ldg(reinterpret_cast<const uint32_t*>(bias + column));
    return {Low(pair), High(pair)};
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const Tile& tile, uint64_t* barrier) const {
    LoadHalf(to, map, k, tile, 0, columns, Of(tile), barrier);
  }
#endif
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread for each warpgroup that multiplies.
__device__ __forceinline__ void StoreChunks(const StoredMaps& maps, const TileGrid& grid,
                                            StoredShared* shared, int half) {
  ForTiles(grid, [&](const Tile& tile) {
    const int row = tile.row * kTileRows + half * 64;
    for (int c = 0; c < kStoredChunks; ++c) {
      const int slot = c % kStoredSlots;
      WaitForOwnPhase(&shared->written[half][slot], c / kStoredSlots & 1);
      StoreBox(maps.result, tile.column * kTileColumns + c * kStoredColumns, row,
               shared->chunks[half][slot]);
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half][slot]);
    }
  });
  WaitUntilWritten();
}

// The chunks of a warpgroup, 16 columns a slice.
class ChunkWriter {
 public:
  __device__ __forceinline__ ChunkWriter(StoredShared* shared, int half)
      : shared_(shared), half_(half) {
#pragma unroll
    for (int s = 0; s < kStoredSlices; ++s) at_[s] = BlocksOffset<kStoredColumns>(s);
  }
  // Slice s of a chunk, in order: v[2 j + h] are two neighbours of its columns 8 j on.
  __device__ __forceinline__ void Put(int chunk, int s, const uint32_t* v) {
    const int slot = chunk % kStoredSlots;
    if (s == 0) WaitForOwnPhase(&shared_->stored[half_][slot], (chunk / kStoredSlots & 1) ^ 1);
    StoreBlocks4(SharedAddress(shared_->chunks[half_][slot]) + at_[s], v[0], v[1], v[2], v[3]);
    if (s != kStoredSlices - 1) return;
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_][slot]);
  }

 private:
  StoredShared* shared_;
  int half_;
  unsigned at_[kStoredSlices];
};

// What is done with a tile where nothing is: it is stored as it is.
class StoredAsIs {
 public:
  static constexpr int kParts = kStoredChunks, kSlices = kStoredSlices;

  template <typename Terms, typename Grid>
  __device__ __forceinline__ StoredAsIs(const Terms&, const Grid&, StoredShared* shared, int half)
      : writer_(shared, half) {}
  __device__ __forceinline__ void Fetch(int, int) {}
  __device__ __forceinline__ void Finish(int chunk, int s, const uint32_t (&tile)[64]) {
    writer_.Put(chunk, s, &tile[4 * s]);
  }

 private:
  ChunkWriter writer_;
};

__device__ __forceinline__ void InitStored(StoredShared* shared) {
  InitOperandBarriers(&shared->barriers);
  for (int half = 0; half < 2; ++half) {
    for (int slot = 0; slot < kStoredSlots; ++slot) {
      InitBarrier(&shared->written[half][slot], 4);
      InitBarrier(&shared->stored[half][slot]);
    }
  }
  PublishBarriers();
}

template <typename Terms>
__device__ __forceinline__ void LoadStoredStages(const StoredMaps& maps, const TileGrid& grid,
                                                 const Terms& terms, StoredShared* shared) {
  LoadOperands(grid, terms, &shared->operands, &shared->barriers,
               [&](const Tile& tile, int k, void* left, unsigned char* right, uint64_t* barrier) {
                 LoadBox(left, maps.left, k, tile.row * kTileRows, barrier);
                 terms.LoadWeight(right, maps.weight, k, tile, barrier);
               });
}

template <typename Work, typename Terms>
__device__ __forceinline__ void MultiplyStoredTiles(const TileGrid& grid, const Terms& terms,
                                                    StoredShared* shared, int half) {
  Multiplier<Terms::kAcross, kStoredStages, kStoredDepth> multiplier(&shared->operands,
                                                                     &shared->barriers, half);
  Work work(terms, grid, shared, half);
  multiplier.Run(grid, terms, &work);
}

#endif

// Work, of each warpgroup that multiplies: made of (terms, grid, shared, which warpgroup); what
// Multiplier::Run calls, Finish ending in ChunkWriter::Put.
template <typename Work, typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    StoredProductKernel(const __grid_constant__ StoredMaps maps,
                        const __grid_constant__ Terms terms, TileGrid grid) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<StoredShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitStored(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStoredStages(maps, grid, terms, shared);
    if (threadIdx.x == 32) StoreChunks(maps, grid, shared, 0);
    if (threadIdx.x == 64) StoreChunks(maps, grid, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyStoredTiles<Work>(grid, terms, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

// A Work that StoredProductKernel takes, and the terms of its sums.
template <typename Work, typename Terms>
void LaunchStoredProduct(const StoredMaps& maps, const Terms& terms, const TileGrid& grid,
                         const char* op, Stream* stream) {
  LaunchProduct(StoredProductKernel<Work, Terms>, kStoredSharedBytes, grid, Handle(stream), op,
                maps, terms, grid);
}

}  // namespace coxswain::kernels::cuda

#endif  // COXSWAIN_KERNELS_CUDA_PRODUCTS_STORED_PRODUCT_CUH_
