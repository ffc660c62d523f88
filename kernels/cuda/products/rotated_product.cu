// qkv = x W^T + bias with q and k turned, in one launch: what a product of its own would write, and
// a pass read and write again, turns while it lies in registers. Source: kernels/rope.h.
//
// stored_product.cuh: columns of the tile are those of heads, 256 / hd of them whole, so that a
// thread has both of a pair: column c of a head's first half in slice s of the tile, c + hd / 2 in
// slice s + hd / 32. Sums are rounded before they turn. Cosines and sines of a slice come from the
// caches while the step before it multiplies, positions of the next tile's rows while this one is
// worked on.
//
// Bytes: 2 per element of qkv, written; operands and tables mostly from the caches. Bitwise
// deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/products/rotated_product.h"

#include "kernels/cuda/products/fused_choice.h"
#include "kernels/cuda/products/stored_product.cuh"
#include "kernels/cuda/rope_pair.cuh"

namespace coxswain::kernels::cuda {
namespace {

struct TurnedTerms : LinearTerms {
  const float *cos, *sin;    // [positions, hd / 2]
  const int32_t* positions;  // [rows]
  int rows, turned;          // turned: columns of q and k
};

template <int kDim>
class TurnedTile;  // launches name it where no body is compiled

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

// What a warpgroup does with a tile: 16 columns of kDim-wide heads a slice.
template <int kDim>
class TurnedTile {
 public:
  static constexpr int kParts = kTileColumns / kDim, kSlices = kDim / 16;  // a part is a head

  __device__ __forceinline__ TurnedTile(const TurnedTerms& terms, const TileGrid& grid,
                                        StoredShared* shared, int half)
      : terms_(terms),
        grid_(grid),
        writer_(shared, half),
        row_(half * 64 + static_cast<int>(threadIdx.x) % 128 / 32 * 16 +
             static_cast<int>(threadIdx.x) % 32 / 4),
        index_(static_cast<int>(blockIdx.x) / kProductCluster) {
    ReadPositions();
  }

  __device__ __forceinline__ void Fetch(int part, int s) {
    if (part == 0 && s == 0) BeginTile();
    if (!Turns(part)) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = angles_[h] + s % kHalf * 16 + 8 * j;
        cos_[h][j] = __ldg(reinterpret_cast<const float2*>(terms_.cos + at));
        sin_[h][j] = __ldg(reinterpret_cast<const float2*>(terms_.sin + at));
      }
    }
  }
  __device__ __forceinline__ void Finish(int part, int s, const uint32_t (&tile)[64]) {
    uint32_t v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = tile[4 * s + i];
    if (Turns(part)) Turn(s, tile, v);
    writer_.Put(part * (kSlices / kStoredSlices) + s / kStoredSlices, s % kStoredSlices, v);
  }

 private:
  static constexpr int kHalf = kDim / 32;  // slices of half a head
  static_assert(kTileColumns % kDim == 0 && kHalf * 32 == kDim);

  __device__ __forceinline__ bool Turns(int part) const {
    return column_ + kDim * part < terms_.turned;
  }

  // v[2 j + h]: two neighbours of row h, columns 8 j on of the slice.
  __device__ __forceinline__ void Turn(int s, const uint32_t (&tile)[64], uint32_t (&v)[4]) const {
    const bool first = s < kHalf;
    const int other = first ? s + kHalf : s - kHalf;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 cos = cos_[i % 2][i / 2], sin = sin_[i % 2][i / 2];
      const uint32_t a = first ? v[i] : tile[4 * other + i], b = first ? tile[4 * other + i] : v[i];
      v[i] = first ? PackPair(TurnedFirst(Low(a), Low(b), cos.x, sin.x),
                              TurnedFirst(High(a), High(b), cos.y, sin.y))
                   : PackPair(TurnedSecond(Low(a), Low(b), cos.x, sin.x),
                              TurnedSecond(High(a), High(b), cos.y, sin.y));
    }
  }

  __device__ __forceinline__ void BeginTile() {
    column_ = TileAt(grid_, index_).column * kTileColumns;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      angles_[h] = next_[h] * (kDim / 2) + static_cast<int>(threadIdx.x) % 4 * 2;
    }
    index_ += static_cast<int>(gridDim.x) / kProductCluster;
    ReadPositions();
  }
  // Of this thread's rows of the tile at index_; of the last tile and row behind the end.
  __device__ __forceinline__ void ReadPositions() {
    const int last = grid_.row_tiles * grid_.column_tiles - 1;
    const int first = TileAt(grid_, min(index_, last)).row * kTileRows + row_;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      next_[h] = __ldg(terms_.positions + min(first + 8 * h, terms_.rows - 1));
    }
  }

  const TurnedTerms& terms_;
  const TileGrid& grid_;
  ChunkWriter writer_;
  int row_;                  // of a tile, with h 0
  int index_, column_ = 0;   // of the tile whose positions are read next; of the one worked on
  int next_[2], angles_[2];  // positions of rows; where their cosines and sines begin
  float2 cos_[2][2], sin_[2][2];
};

#endif

template <int kDim>
void Launch(const RotatedLinearArgs& args, Stream* stream) {
  const RopeArgs& rope = args.rope;
  const int64_t heads = rope.spec.num_heads + rope.spec.num_kv_heads, in = args.in_features;
  const int64_t columns = (heads + rope.spec.num_kv_heads) * kDim;
  const StoredMaps maps{
      .left = MakeTensorMap({args.x, rope.tokens, in, in, kTileRows, kStoredDepth}),
      .weight = MakeTensorMap({args.weight, columns, in, in, kHalfTileColumns, kStoredDepth}),
      .result = MakeTensorMap({rope.qkv, rope.tokens, columns, columns, 64, kStoredColumns})};
  TurnedTerms terms;
  terms.bias = static_cast<const bf16*>(args.bias);
  terms.cos = rope.cos;
  terms.sin = rope.sin;
  terms.positions = rope.positions;
  terms.rows = static_cast<int>(rope.tokens);
  terms.columns = static_cast<int>(columns);
  terms.turned = static_cast<int>(heads * kDim);
  LaunchStoredProduct<TurnedTile<kDim>>(
      maps, terms, MakeTileGrid(rope.tokens, columns, kTileColumns, in, kStoredDepth),
      "RotatedLinear", stream);
}

}  // namespace

bool RotatedProductRuns(const RotatedLinearArgs& args) {
  const RopeSpec& spec = args.rope.spec;
  const int64_t dim = spec.head_dim;
  return spec.dtype == DType::kBFloat16 && Capability() == 90 && args.in_features % 8 == 0 &&
         (dim == 64 || dim == 128 || dim == 256) && RotatedElements(spec) == dim &&
         !spec.interleaved && args.rope.query_scale == nullptr &&
         AllAligned(args.x, args.weight, args.bias, args.rope.qkv, args.rope.cos, args.rope.sin);
}

void RotatedProduct(const RotatedLinearArgs& args, Stream* stream) {
  switch (args.rope.spec.head_dim) {
    case 64:
      return Launch<64>(args, stream);
    case 128:
      return Launch<128>(args, stream);
    default:
      return Launch<256>(args, stream);
  }
}

}  // namespace coxswain::kernels::cuda
