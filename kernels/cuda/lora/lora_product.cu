// y = x W^T + bias + h B^T by members, and dx = dy W + g A, each in one launch.
// Source: Hu et al., "LoRA", 2021.
//
// product_tiles.cuh: the steps behind those of W multiply h with B, or g with A, so that the sums
// are rounded once. For y a half of a tile's columns lies in one member: a tile takes the steps of
// the members in it, with zeros for B in a half that is another's. Tiles whose second half lies
// outside take the first alone. stored_product.cuh writes them. Bytes: 2 per element of the result
// written, instead of 6 where a product of its own writes it and the one with W adds to it. Bitwise
// deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/lora/lora_product.h"

#include "kernels/cuda/lora/lora_workspace.h"
#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/stored_product.cuh"

namespace coxswain::kernels::cuda {
namespace {

// Columns of y of the members, and their operands.
struct OutputTerms : LinearTerms {
  TensorMap h[kMaxProductMembers], b[kMaxProductMembers];
  int begin[kMaxProductMembers], end[kMaxProductMembers];  // empty behind the last member
  int rank;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  template <typename Add>
  __device__ __forceinline__ void ForAdded(const Tile& tile, const Add& add) const {
    const int column = tile.column * kTileColumns;
    for (int j = 0; j < kMaxProductMembers; ++j) {
      if (begin[j] < column + kTileColumns && column < end[j]) ForRank<kStoredDepth>(j, rank, add);
    }
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    const int j = step.member;
    LoadBox(left, h[j], step.k, tile.row * kTileRows, barrier);
    LoadHalf(right, b[j], step.k, tile, begin[j], end[j], Of(tile), barrier);
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
    ForRank<kStoredDepth>(0, rank, add);
  }
  __device__ __forceinline__ void LoadWeight(unsigned char* to, const TensorMap& map, int k,
                                             const Tile& tile, uint64_t* barrier) const {
    LoadAcross<kStoredDepth>(to, map, k, tile.column * kTileColumns, Of(tile), barrier);
  }
  __device__ __forceinline__ void Load(const Tile& tile, const AddedStep& step, void* left,
                                       unsigned char* right, uint64_t* barrier) const {
    LoadBox(left, g, step.k, tile.row * kTileRows, barrier);
    LoadWeight(right, a, step.k, tile, barrier);
  }
#endif
};

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
    terms.h[j] = MakeTensorMap({h, args.rows, r, stacked, kTileRows, kStoredDepth});
    terms.b[j] =
        MakeTensorMap({member.b, member.out_features, r, r, kHalfTileColumns, kStoredDepth});
    if (of != j) continue;
    terms.begin[j] = static_cast<int>(member.column_offset);
    terms.end[j] = static_cast<int>(member.column_offset + member.out_features);
  }
  return terms;
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
    if (member.column_offset % kHalfTileColumns != 0 || !AllAligned(member.b)) return false;
  }
  return true;
}

bool LoraProductRuns(const LoraLinearBackwardArgs& args) {
  return LoraProductTakes(args.spec) && !args.accumulate_dx && args.spec.dropout_rate == 0.0f &&
         AllAligned(args.dy, args.weight, args.a, args.dx);
}

void LoraProduct(const LoraLinearForwardArgs& args, Stream* stream) {
  const int64_t in = args.spec.in_features, out = args.spec.columns();
  const StoredMaps maps{
      .left = MakeTensorMap({args.x, args.rows, in, in, kTileRows, kStoredDepth}),
      .weight = MakeTensorMap({args.weight, out, in, in, kHalfTileColumns, kStoredDepth}),
      .result = MakeTensorMap({args.y, args.rows, out, args.spec.ldy, 64, kStoredColumns})};
  LaunchStoredProduct<StoredAsIs>(maps, TermsOf(args),
                                  MakeTileGrid(args.rows, out, kTileColumns, in, kStoredDepth),
                                  "LoraLinear", stream);
}

void LoraProduct(const LoraLinearBackwardArgs& args, Stream* stream) {
  const LoraLinearSpec& spec = args.spec;
  const int64_t in = spec.in_features, out = spec.columns(), r = spec.stacked_rank();
  const StoredMaps maps{
      .left = MakeTensorMap({args.dy, args.rows, out, spec.ldy, kTileRows, kStoredDepth}),
      .weight = MakeTensorMap({args.weight, out, in, in, kStoredDepth, 64}),
      .result = MakeTensorMap({args.dx, args.rows, in, in, 64, kStoredColumns})};
  const InputGradientTerms terms{
      .g = MakeTensorMap({GradientOfH(args), args.rows, r, r, kTileRows, kStoredDepth}),
      .a = MakeTensorMap({args.a, r, in, in, kStoredDepth, 64}),
      .rank = static_cast<int>(r),
      .columns = static_cast<int>(in)};
  LaunchStoredProduct<StoredAsIs>(maps, terms,
                                  MakeTileGrid(args.rows, in, kTileColumns, out, kStoredDepth),
                                  "LoraLinear", stream);
}

}  // namespace coxswain::kernels::cuda
