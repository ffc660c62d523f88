// Forward of cut_cross_entropy.h: of each row and tile of 256 columns the reference and sum of
// exponentials (cross_entropy_row.cuh), the sum of logits where labels are smoothed, the first
// maximum where hits are wanted, and the target's logit; then those of a row's tiles into its
// losses. No logit is written.
//
// cut_product.cuh: a tile is rounded when it is complete; its row maxima are taken first, then 16
// columns a slice are summed between the steps of the next tile. Rows go in passes whose partial
// results fit the workspace.
// Bytes: 8 to 20 a row and tile, written and read once; operands mostly from the L2 cache. Bitwise
// deterministic: a tile's sums have one order, tiles are merged in sixteen groups, each in order.
#include "kernels/cuda/loss/cut_product.cuh"
#include "kernels/cuda/products/fused_choice.h"

namespace coxswain::kernels::cuda {
namespace cut {
namespace {

// [tiles of columns, rows of the pass]
struct Partials {
  float2* sums;      // reference, exponentials
  float* logits;     // null: not wanted
  Largest* largest;  // null: not wanted
  float* target;     // [rows of the pass]
  int rows;
};
static_assert(sizeof(float2) + sizeof(float) + sizeof(Largest) == kCutPartialBytes);

struct SumsTerms : CutTerms {
  Partials out;
};

template <bool kSoftcap>
class SumsTile;  // launches name it where no body is compiled

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <bool kSoftcap>
class SumsTile {
 public:
  static constexpr int kParts = kStoredChunks, kSlices = kStoredSlices;

  __device__ __forceinline__ SumsTile(const SumsTerms& terms, const TileGrid& grid, StoredShared*,
                                      int half)
      : terms_(terms), tile_(terms, grid, half), softcap_(terms.softcap) {}

  __device__ __forceinline__ void Fetch(int part, int s) {
    if (part == 0 && s == 0) tile_.Next();
  }
  __device__ __forceinline__ void Finish(int part, int s, const uint32_t (&tile)[64]) {
    if (part == 0 && s == 0) Begin(tile);
    const int column = tile_.column(part, s);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float z[4];
      ReadLogits<kSoftcap>(tile, s, h, terms_.logit_scale, softcap_, z);
      if (terms_.out.largest != nullptr) FindLargest(tile, s, h, column);
      const int target = tile_.TargetFrom(h, column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool within = !cut_ || column + CutTile::ColumnOf(i) < terms_.columns;
        exponentials_[h] += within ? Exp2(fmaf(z[i], kLog2E, -reference_[h])) : 0.0f;
        if (terms_.out.logits != nullptr) logits_[h] += within ? z[i] : 0.0f;
        if (target == CutTile::ColumnOf(i) && !tile_.ignored(h)) {
          terms_.out.target[tile_.row(h)] = z[i];
        }
      }
    }
    if (part == kParts - 1 && s == kSlices - 1) Write();
  }

 private:
  // Before the tile's parts move: the largest logit of each row.
  __device__ __forceinline__ void Begin(const uint32_t (&tile)[64]) {
    cut_ = tile_.IsCut();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = cut_ ? LargestWithin(tile, h) : LargestOfAll(tile, h);
#pragma unroll
      for (int lane = 1; lane < 4; lane *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lane));
      }
      float z[1] = {terms_.logit_scale * largest};
      cross_entropy::CapAll<kSoftcap>(z, softcap_);
      largest_[h] = largest;
      at_largest_[h] = NoLogit().column;
      reference_[h] = fmaxf(cross_entropy::kLowest, z[0] * kLog2E);
      exponentials_[h] = logits_[h] = 0.0f;
    }
  }
  // NaN is passed over.
  static __device__ __forceinline__ float LargestOfAll(const uint32_t (&tile)[64], int h) {
    const auto pair = [&](int i) {
      return reinterpret_cast<const __nv_bfloat162&>(tile[2 * i + h]);
    };
    __nv_bfloat162 largest = pair(0);
#pragma unroll
    for (int i = 1; i < 32; ++i) largest = __hmax2(largest, pair(i));
    return fmaxf(__low2float(largest), __high2float(largest));
  }
  __device__ __forceinline__ float LargestWithin(const uint32_t (&tile)[64], int h) const {
    const int column = tile_.column(0, 0);
    float largest = cross_entropy::kLowest;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (column + 8 * i < terms_.columns) largest = fmaxf(largest, Low(tile[2 * i + h]));
      if (column + 8 * i + 1 < terms_.columns) largest = fmaxf(largest, High(tile[2 * i + h]));
    }
    return largest;
  }
  __device__ __forceinline__ void FindLargest(const uint32_t (&tile)[64], int s, int h,
                                              int column) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t pair = tile[4 * s + i / 2 * 2 + h];
      const float logit = i % 2 == 0 ? Low(pair) : High(pair);
      const int at = column + CutTile::ColumnOf(i);
      if (logit == largest_[h] && at < terms_.columns) at_largest_[h] = min(at_largest_[h], at);
    }
  }
  __device__ __forceinline__ void Write() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int lane = 1; lane < 4; lane *= 2) {
        exponentials_[h] += __shfl_xor_sync(~0u, exponentials_[h], lane);
        logits_[h] += __shfl_xor_sync(~0u, logits_[h], lane);
        at_largest_[h] = min(at_largest_[h], __shfl_xor_sync(~0u, at_largest_[h], lane));
      }
      if (threadIdx.x % 4 != 0 || !tile_.has(h)) continue;
      const Partials& out = terms_.out;
      const int64_t at = int64_t{tile_.tile_column()} * out.rows + tile_.row(h);
      out.sums[at] = {reference_[h], exponentials_[h]};
      if (out.logits != nullptr) out.logits[at] = logits_[h];
      if (out.largest != nullptr) out.largest[at] = {largest_[h], at_largest_[h]};
    }
  }

  const SumsTerms& terms_;
  CutTile tile_;
  cross_entropy::Softcap softcap_;
  bool cut_ = false;
  float reference_[2], exponentials_[2], logits_[2], largest_[2];
  int at_largest_[2];
};

#endif

// StoredProductKernel without a result.
template <bool kSoftcap>
__global__ void __launch_bounds__(kProductThreads, 1)
    SumsKernel(const __grid_constant__ StoredMaps maps, const __grid_constant__ SumsTerms terms,
               TileGrid grid) {
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
  } else {
    TakeRegisters<232>();
    MultiplyStoredTiles<SumsTile<kSoftcap>>(grid, terms, shared, group - 1);
  }
  ClusterBarrier();  // the other block still arrives at this one's barriers
#endif
}

constexpr int kMergeGroups = 16;

struct RowOfTiles {
  Partial sums;
  Largest largest;

  __device__ __forceinline__ void Add(const Partial& other, const Largest& other_largest) {
    const float reference = fmaxf(sums.reference, other.reference);
    sums.exponentials = sums.exponentials * Exp2(sums.reference - reference) +
                        other.exponentials * Exp2(other.reference - reference);
    sums.reference = reference;
    sums.logits += other.logits;
    largest = LargerOf(largest, other_largest);
  }
};

// 32 rows a block: a warp takes every sixteenth tile, the first one merges the warps.
__global__ void __launch_bounds__(kMergeGroups* kWarp)
    MergeTilesKernel(const RowResults results, const Partials partials, int first_row, int tiles) {
  __shared__ RowOfTiles groups[kMergeGroups][kWarp];
  const int lane = threadIdx.x % kWarp, group = threadIdx.x / kWarp;
  const int row = static_cast<int>(blockIdx.x) * kWarp + lane;
  RowOfTiles all{cross_entropy::Empty(), NoLogit()};
  for (int tile = group; tile < tiles && row < partials.rows; tile += kMergeGroups) {
    const int64_t at = int64_t{tile} * partials.rows + row;
    const float2 sums = partials.sums[at];
    const float logits = partials.logits == nullptr ? 0.0f : partials.logits[at];
    all.Add({sums.x, sums.y, logits},
            partials.largest == nullptr ? NoLogit() : partials.largest[at]);
  }
  groups[group][lane] = all;
  __syncthreads();
  if (group != 0 || row >= partials.rows) return;
  for (int other = 1; other < kMergeGroups; ++other) {
    all.Add(groups[other][lane].sums, groups[other][lane].largest);
  }
  FinishRow(results, int64_t{first_row} + row, all.sums, partials.target[row], all.largest);
}

// Of the rows from `first` on.
Partials PartialsIn(const CutCrossEntropyForwardArgs& args, const CutSpace& space, int64_t tiles,
                    int64_t rows) {
  auto* data = static_cast<char*>(space.panel.data);
  Partials partials{.sums = reinterpret_cast<float2*>(data),
                    .logits = nullptr,
                    .largest = nullptr,
                    .target = static_cast<float*>(space.rows),
                    .rows = static_cast<int>(rows)};
  data += tiles * rows * static_cast<int64_t>(sizeof(float2));
  if (args.hits != nullptr) {
    partials.largest = reinterpret_cast<Largest*>(data);
    data += tiles * rows * static_cast<int64_t>(sizeof(Largest));
  }
  if (args.spec.label_smoothing > 0.0f) partials.logits = reinterpret_cast<float*>(data);
  return partials;
}

void SumRows(const CutCrossEntropyForwardArgs& args, const Partials& partials, int64_t first,
             Stream* stream) {
  const CutCrossEntropySpec& spec = args.spec;
  const int64_t rows = partials.rows;
  const auto* x = static_cast<const bf16*>(args.x) + first * spec.hidden;
  SumsTerms terms;
  static_cast<CutTerms&>(terms) = TermsOf(spec, args.targets + first, rows, 0, spec.vocab);
  terms.out = partials;
  const StoredMaps maps =
      MapsOf(spec, x, rows, args.weight, {.first = 0, .columns = spec.vocab, .ld = spec.vocab});
  const TileGrid grid = MakeTileGrid(rows, spec.vocab, kTileColumns, spec.hidden, kStoredDepth);
  const auto launch = [&](auto kernel) {
    LaunchProduct(kernel, kStoredSharedBytes, grid, Handle(stream), "CutCrossEntropyForward", maps,
                  terms, grid);
  };
  spec.softcap > 0.0f ? launch(SumsKernel<true>) : launch(SumsKernel<false>);
  MergeTilesKernel<<<static_cast<unsigned>(CeilDiv(rows, kWarp)), kMergeGroups * kWarp, 0,
                     Handle(stream)>>>(ResultsOf(args), partials, static_cast<int>(first),
                                       grid.column_tiles);
  CheckLaunch("CutCrossEntropyForward");
}

}  // namespace
}  // namespace cut

bool CutProductRuns(const CutCrossEntropySpec& spec, const void* x, const void* weight) {
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && spec.hidden % 8 == 0 &&
         AllAligned(x, weight);
}

void CutProductForward(const CutCrossEntropyForwardArgs& args, Stream* stream) {
  const CutSpace space = CutSpaceOf(args.rows, args.workspace);
  const int64_t tiles = CeilDiv(args.spec.vocab, kTileColumns);
  const int64_t held = space.panel.bytes / (tiles * kCutPartialBytes);
  constexpr int64_t kTall = kTileRows * kProductCluster;
  const int64_t most = held >= args.rows ? args.rows : held / kTall * kTall;
  for (int64_t first = 0; first < args.rows; first += most) {
    const int64_t rows = std::min(most, args.rows - first);
    cut::SumRows(args, cut::PartialsIn(args, space, tiles, rows), first, stream);
  }
}

}  // namespace coxswain::kernels::cuda
