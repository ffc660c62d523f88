// Backward of cut_cross_entropy.h: a panel of dz, the gradient of logits that are computed again
// and go from the registers of their tile to dz in bfloat16, 16 columns a slice between the steps
// of the next tile (cut_product.cuh, stored_product.cuh). Bytes: 2 per element of dz, written.
// Bitwise deterministic: a sum runs over k in order, in one warpgroup.
#include "kernels/cuda/loss/cut_product.cuh"

namespace coxswain::kernels::cuda {
namespace cut {
namespace {

// dz = e factor - shift (cross_entropy_row.cuh), at the target e factor - target_shift: p_y - 1
// cancels, in one operation with one rounding.
struct RowFactors {
  float reference, factor, shift, target_shift;
};
static_assert(sizeof(RowFactors) == sizeof(float4) && sizeof(RowFactors) <= kCutRowBytes);

struct GradientTerms : CutTerms {
  const float4* factors;  // [rows], RowFactors
};

constexpr int kFactorThreads = 256;

__global__ void __launch_bounds__(kFactorThreads)
    FactorsKernel(const CrossEntropyArgs loss, const float* statistics, RowFactors* factors) {
  const int64_t row = int64_t{blockIdx.x} * kFactorThreads + threadIdx.x;
  if (row >= loss.rows) return;
  const cross_entropy::Gradient gradient = GradientOfRow(loss, statistics, row);
  const double target_shift =
      static_cast<double>(gradient.scale) * (1.0 - gradient.smoothing) + gradient.shift;
  factors[row] = {gradient.reference, gradient.factor, gradient.shift,
                  static_cast<float>(target_shift)};
}

template <bool kSoftcap>
class GradientTile;  // launches name it where no body is compiled

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <bool kSoftcap>
class GradientTile {
 public:
  static constexpr int kParts = kStoredChunks, kSlices = kStoredSlices;

  __device__ __forceinline__ GradientTile(const GradientTerms& terms, const TileGrid& grid,
                                          StoredShared* shared, int half)
      : terms_(terms), tile_(terms, grid, half), softcap_(terms.softcap), writer_(shared, half) {}

  __device__ __forceinline__ void Fetch(int part, int s) {
    if (part != 0 || s != 0) return;
    tile_.Next();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      factors_[h] = __ldg(terms_.factors + min(tile_.row(h), terms_.rows - 1));
    }
  }
  __device__ __forceinline__ void Finish(int part, int s, const uint32_t (&tile)[64]) {
    const int column = tile_.column(part, s);
    uint32_t v[4];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float z[4];
      ReadLogits<kSoftcap>(tile, s, h, terms_.logit_scale, softcap_, z);
      const int target = tile_.TargetFrom(h, column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const bool at_target = target == CutTile::ColumnOf(i);
        const float shift = at_target ? factors_[h].w : factors_[h].z;
        const float e = Exp2(fmaf(z[i], kLog2E, -factors_[h].x));
        const float dz = fmaf(e, factors_[h].y, -shift), ratio = z[i] * softcap_.inverse;
        z[i] = kSoftcap ? dz * fmaf(-ratio, ratio, 1.0f) : dz;
        if (tile_.ignored(h)) z[i] = 0.0f;
      }
      v[h] = PackPair(z[0], z[1]);
      v[2 + h] = PackPair(z[2], z[3]);
    }
    writer_.Put(part, s, v);
  }

 private:
  const GradientTerms& terms_;
  CutTile tile_;
  cross_entropy::Softcap softcap_;
  ChunkWriter writer_;
  float4 factors_[2];  // RowFactors
};

#endif

}  // namespace
}  // namespace cut

void CutProductGradient(const CutCrossEntropyBackwardArgs& args, const CutSpace& space,
                        const CutPanel& panel, Stream* stream) {
  const CutCrossEntropySpec& spec = args.spec;
  if (panel.first == 0) {
    cut::FactorsKernel<<<static_cast<unsigned>(CeilDiv(args.rows, cut::kFactorThreads)),
                         cut::kFactorThreads, 0, Handle(stream)>>>(
        cut::GradientOf(args), args.statistics, static_cast<cut::RowFactors*>(space.rows));
    CheckLaunch("CutCrossEntropyBackward");
  }
  cut::GradientTerms terms;
  static_cast<cut::CutTerms&>(terms) =
      cut::TermsOf(spec, args.targets, args.rows, panel.first, panel.columns);
  terms.factors = static_cast<const float4*>(space.rows);
  const StoredMaps maps = cut::MapsOf(spec, args.x, args.rows, args.weight, panel);
  const TileGrid grid =
      MakeTileGrid(args.rows, panel.columns, kTileColumns, spec.hidden, kStoredDepth);
  if (spec.softcap > 0.0f) {
    LaunchStoredProduct<cut::GradientTile<true>>(maps, terms, grid, "CutCrossEntropyBackward",
                                                 stream);
  } else {
    LaunchStoredProduct<cut::GradientTile<false>>(maps, terms, grid, "CutCrossEntropyBackward",
                                                  stream);
  }
}

}  // namespace coxswain::kernels::cuda
