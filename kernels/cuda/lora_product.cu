// y = x W^T + bias + h B^T by members, and dx = dy W + g A, each in one launch.
// Source: Hu et al., "LoRA", 2021.
//
// product_tiles.cuh: the steps behind those of W multiply h with B, or g with A, so that the sums
// are rounded once. For y a half of a tile's columns lies in one member: a tile takes the steps of
// the members in it, with zeros for B in a half that is another's. Tiles whose second half lies
// outside take the first alone. A warp puts its part of 64 columns, rounded, into shared memory,
// where a thread of warpgroup 0 for each of the other two stores them by the copy engine from two
// places in turns. Bytes: 2 per element of the result written, instead of 6 where a product of its
// own writes it and the one with W adds to it; operands by every column or row of tiles, mostly
// from the L2 cache. Bitwise deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/lora_product.h"

#include "kernels/cuda/fused_choice.h"
#include "kernels/cuda/lora_workspace.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/product_tiles.cuh"
#include "kernels/cuda/shared_address.cuh"

namespace coxswain::kernels::cuda {
namespace {

constexpr int kStages = 4;
constexpr int kDepth = 64;
// A tile is stored by chunks of a warpgroup's rows.
constexpr int kChunkColumns = 64;
constexpr unsigned kChunkBytes = 64 * kChunkColumns * kBf16Bytes;
constexpr int kChunks = kTileColumns / kChunkColumns;  // of a tile
constexpr int kSlots = 2;                              // chunks of a warpgroup in shared memory
constexpr int kHalfColumns = kTileColumns / 2;
using Stage = Operands<kStages, kDepth>;
// The parities of `written` and `stored` are those of a slot's use within its tile, not of all its
// uses: they agree when each tile takes an even number of phases of every slot.
static_assert(kChunks % kSlots == 0 && kChunks / kSlots % 2 == 0);

struct ProductMaps {
  TensorMap left, weight, result;
};

struct alignas(1024) ProductShared {
  Stage operands;
  unsigned char chunks[2][kSlots][kChunkBytes];  // of each warpgroup
  OperandBarriers<kStages> barriers;
  uint64_t written[2][kSlots];  // a chunk is complete
  uint64_t stored[2][kSlots];   // and has been read
};
// Dynamic shared memory starts at a multiple of 16.
constexpr int kSharedBytes = sizeof(ProductShared) + 1024;
static_assert(kSharedBytes <= 227 * 1024);

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ __forceinline__ Columns ColumnsWithin(const Tile& tile, int columns) {
  return tile.column * kTileColumns + kHalfColumns < columns ? Columns::kAll : Columns::kFirstHalf;
}
#endif

// Columns of y of the members, and their operands.
struct OutputTerms {
  TensorMap h[kMaxProductMembers], b[kMaxProductMembers];
  int begin[kMaxProductMembers], end[kMaxProductMembers];  // empty behind the last member
  const bf16* bias;                                        // [columns]; null: none
  int rank, columns;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr bool kAcross = false;

  __device__ __forceinline__ Columns Of(const Tile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  // While this warpgroup reads the bias, the other one multiplies.
  __device__ __forceinline__ float2 Addend(const Tile& tile, int j) const {
    const int column = tile.column * kTileColumns + 8 * j + static_cast<int>(threadIdx.x) % 4 * 2;
    if (bias == nullptr || column >= columns) return {};
    const uint32_t pair = __ldg(reinterpret_cast<const uint32_t*>(bias + column));
    return {Low(pair), High(pair)};
  }
  template <typename Add>
  __device__ __forceinline__ void ForAdded(const Tile& tile, const Add& add) const {
    const int column = tile.column * kTileColumns;
    for (int j = 0; j < kMaxProductMembers; ++j) {
      if (begin[j] < column + kTileColumns && column < end[j]) ForRank<kDepth>(j, rank, add);
    }
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const Tile& tile, uint64_t* barrier) const {
    LoadHalf(to, map, k, tile, 0, columns, barrier);
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    const int j = step.member;
    LoadBox(left, h[j], step.k, tile.row * kTileRows, barrier);
    LoadHalf(right, b[j], step.k, tile, begin[j], end[j], barrier);
  }

 private:
  // This block's half of the rows of `map`, which are the columns [from, to) of y: zeros where the
  // half lies before them, as behind.
  __device__ __forceinline__ void LoadHalf(unsigned char* into, const TensorMap& map, int k,
                                           const Tile& tile, int from, int to,
                                           uint64_t* barrier) const {
    const int half = static_cast<int>(ClusterRank());
    if (half == 1 && Of(tile) == Columns::kFirstHalf) return;
    const int column = tile.column * kTileColumns + half * kHalfColumns;
    LoadBoxForAll(into + half * Stage::kHalfBytes, map, k, (column < from ? to : column) - from,
                  barrier, 3);
  }
#endif
};

struct InputGradientTerms {
  TensorMap g, a;
  int rank;  // of all members
  int columns;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  static constexpr bool kAcross = true;

  __device__ __forceinline__ Columns Of(const Tile& tile) const {
    return ColumnsWithin(tile, columns);
  }
  template <typename Add>
  __device__ __forceinline__ void ForAdded(const Tile& tile, const Add& add) const {
    ForRank<kDepth>(0, rank, add);
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const Tile& tile, uint64_t* barrier) const {
    LoadAcross<kDepth>(to, map, k, tile.column * kTileColumns, Of(tile), barrier);
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    LoadBox(left, g, step.k, tile.row * kTileRows, barrier);
    LoadWeight(right, a, step.k, tile, barrier);
  }
#endif
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// By one thread for each warpgroup that multiplies.
__device__ __forceinline__ void StoreChunks(const ProductMaps& maps, const TileGrid& grid,
                                            ProductShared* shared, int half) {
  ForTiles(grid, [&](const Tile& tile) {
    const int row = tile.row * kTileRows + half * 64;
    for (int c = 0; c < kChunks; ++c) {
      const int slot = c % kSlots;
      WaitForOwnPhase(&shared->written[half][slot], c / kSlots & 1);
      StoreBox(maps.result, tile.column * kTileColumns + c * kChunkColumns, row,
               shared->chunks[half][slot]);
      CloseGroup();
      WaitUntilRead<0>();
      Arrive(&shared->stored[half][slot]);
    }
  });
  WaitUntilWritten();
}

// What a warpgroup does with a tile: 16 columns a slice.
class Output {
 public:
  __device__ __forceinline__ Output(ProductShared* shared, int half)
      : shared_(shared), half_(half) {
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) at_[pair] = BlocksOffset<kChunkColumns>(pair);
  }
  __device__ __forceinline__ void Fetch(int) {}
  __device__ __forceinline__ void Finish(int s, const uint32_t (&tile)[64]) {
    const int c = s / kPairs, slot = c % kSlots;
    if (s % kPairs == 0) WaitForOwnPhase(&shared_->stored[half_][slot], (c / kSlots & 1) ^ 1);
    StoreBlocks4(SharedAddress(shared_->chunks[half_][slot]) + at_[s % kPairs], tile[4 * s],
                 tile[4 * s + 1], tile[4 * s + 2], tile[4 * s + 3]);
    if (s % kPairs != kPairs - 1) return;
    PublishToCopies();
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(&shared_->written[half_][slot]);
  }

 private:
  static constexpr int kPairs = kChunkColumns / 16;

  ProductShared* shared_;
  int half_;
  unsigned at_[kPairs];
};

__device__ __forceinline__ void InitProduct(ProductShared* shared) {
  InitOperandBarriers(&shared->barriers);
  for (int half = 0; half < 2; ++half) {
    for (int slot = 0; slot < kSlots; ++slot) {
      InitBarrier(&shared->written[half][slot], 4);
      InitBarrier(&shared->stored[half][slot]);
    }
  }
  PublishBarriers();
}

template <typename Terms>
__device__ __forceinline__ void LoadStages(const ProductMaps& maps, const TileGrid& grid,
                                           const Terms& terms, ProductShared* shared) {
  LoadOperands(grid, terms, &shared->operands, &shared->barriers,
               [&](const Tile& tile, int k, void* left, unsigned char* right, uint64_t* barrier) {
                 LoadBox(left, maps.left, k, tile.row * kTileRows, barrier);
                 terms.LoadWeight(right, maps.weight, k, tile, barrier);
               });
}

template <typename Terms>
__device__ __forceinline__ void MultiplyTiles(const TileGrid& grid, const Terms& terms,
                                              ProductShared* shared, int half) {
  Multiplier<Terms::kAcross, kStages, kDepth> multiplier(&shared->operands, &shared->barriers,
                                                         half);
  Output work(shared, half);
  multiplier.template Run<kTileColumns / 16>(grid, terms, &work);
}

#endif

template <typename Terms>
__global__ void __launch_bounds__(kProductThreads, 1)
    LoraProductKernel(const __grid_constant__ ProductMaps maps, const __grid_constant__ Terms terms,
                      TileGrid grid) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ unsigned char dynamic[];
  auto* shared =
      reinterpret_cast<ProductShared*>(dynamic + (1024 - SharedAddress(dynamic) % 1024) % 1024);
  if (threadIdx.x == 0) InitProduct(shared);
  ClusterBarrier();
  const int group = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == 0) {
    LeaveRegisters<40>();
    if (threadIdx.x == 0) LoadStages(maps, grid, terms, shared);
    if (threadIdx.x == 32) StoreChunks(maps, grid, shared, 0);
    if (threadIdx.x == 64) StoreChunks(maps, grid, shared, 1);
  } else {
    TakeRegisters<232>();
    MultiplyTiles(grid, terms, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

OutputTerms TermsOf(const LoraLinearForwardArgs& args) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t r = spec.rank, stacked = spec.stacked_rank();
  OutputTerms terms = {};
  terms.bias = static_cast<const bf16*>(args.bias);
  terms.rank = static_cast<int>(r);
  terms.columns = static_cast<int>(spec.columns());
  for (size_t j = 0; j < kMaxProductMembers; ++j) {
    // A map is made for every place of the table; those behind the last member are of no column.
    const size_t of = j < spec.members.size() ? j : 0;
    const LoraMember& member = spec.members[of];
    const auto* h = static_cast<const bf16*>(args.h) + static_cast<int64_t>(of) * r;
    terms.h[j] = MakeTensorMap({h, args.rows, r, stacked, kTileRows, kDepth});
    terms.b[j] = MakeTensorMap({member.b, member.out_features, r, r, kHalfColumns, kDepth});
    if (of != j) continue;
    terms.begin[j] = static_cast<int>(member.column_offset);
    terms.end[j] = static_cast<int>(member.column_offset + member.out_features);
  }
  return terms;
}

template <typename Terms>
void Launch(const ProductMaps& maps, const Terms& terms, const TileGrid& grid, Stream* stream) {
  LaunchProduct(LoraProductKernel<Terms>, kSharedBytes, grid, Handle(stream), "LoraLinear", maps,
                terms, grid);
}

}  // namespace

bool LoraProductTakes(const LoraLinearSpec& spec) {
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && spec.in_features % 8 == 0 &&
         spec.columns() % 8 == 0 && spec.ldy % 8 == 0 && spec.rank % 8 == 0 &&
         spec.weight_scale == 1.0f;
}

bool LoraProductRuns(const LoraLinearForwardArgs& args) {
  const LoraLinearSpec& spec = args.spec;
  if (!LoraProductTakes(spec) || args.accumulate_y || spec.members.size() > kMaxProductMembers ||
      !AllAligned(args.x, args.weight, args.h, args.y, args.bias)) {
    return false;
  }
  for (const LoraMember& member : spec.members) {
    if (member.column_offset % kHalfColumns != 0 || !AllAligned(member.b)) return false;
  }
  return true;
}

bool LoraProductRuns(const LoraLinearBackwardArgs& args) {
  return LoraProductTakes(args.spec) && !args.accumulate_dx && args.spec.dropout_rate == 0.0f &&
         AllAligned(args.dy, args.weight, args.a, args.dx);
}

void LoraProduct(const LoraLinearForwardArgs& args, Stream* stream) {
  const int64_t in = args.spec.in_features, out = args.spec.columns();
  const ProductMaps maps{
      .left = MakeTensorMap({args.x, args.rows, in, in, kTileRows, kDepth}),
      .weight = MakeTensorMap({args.weight, out, in, in, kHalfColumns, kDepth}),
      .result = MakeTensorMap({args.y, args.rows, out, args.spec.ldy, 64, kChunkColumns})};
  Launch(maps, TermsOf(args), MakeTileGrid(args.rows, out, kTileColumns, in, kDepth), stream);
}

void LoraProduct(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t in = spec.in_features, out = spec.columns(), r = spec.stacked_rank();
  const ProductMaps maps{
      .left = MakeTensorMap({args.dy, args.rows, out, spec.ldy, kTileRows, kDepth}),
      .weight = MakeTensorMap({args.weight, out, in, in, kDepth, 64}),
      .result = MakeTensorMap({args.dx, args.rows, in, in, 64, kChunkColumns})};
  const InputGradientTerms terms{
      .g = MakeTensorMap({GradientOfH(args), args.rows, r, r, kTileRows, kDepth}),
      .a = MakeTensorMap({args.a, r, in, in, kDepth, 64}),
      .rank = static_cast<int>(r),
      .columns = static_cast<int>(in)};
  Launch(maps, terms, MakeTileGrid(args.rows, in, kTileColumns, out, kDepth), stream);
}

}  // namespace coxswain::kernels::cuda
