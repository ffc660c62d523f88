// The rotation in place, 8 bytes per rotated element; then q heads times their scale, if any.
#include "kernels/rope.h"

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

// sign 1 turns forward, -1 back. Pair j of a head: (x[j], x[j + half]), or (x[2j], x[2j + 1]).
template <bool kInterleaved>
COXSWAIN_INLINE void RotateHead(const float* cos, const float* sin, float sign, int64_t half,
                                float* x) {
  const int64_t step = kInterleaved ? 2 : 1, apart = kInterleaved ? 1 : half;
  for (int64_t j = 0; j < half; ++j) {
    const float a = x[j * step], b = x[j * step + apart], c = cos[j], s = sign * sin[j];
    x[j * step] = a * c - b * s;
    x[j * step + apart] = b * c + a * s;
  }
}

COXSWAIN_INLINE void ScaleRow(float scale, float* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) x[j] *= scale;
}

COXSWAIN_VECTORIZE void RotateTokens(const RopeArgs& args, float sign, int64_t begin, int64_t end) {
  const int64_t dim = args.spec.head_dim, half = RotatedElements(args.spec) / 2;
  const int64_t heads = args.spec.num_heads + args.spec.num_kv_heads;
  const int64_t row = (heads + args.spec.num_kv_heads) * dim;
  for (int64_t t = begin; t < end; ++t) {
    const float* cos = args.cos + args.positions[t] * half;
    const float* sin = args.sin + args.positions[t] * half;
    float* const q = static_cast<float*>(args.qkv) + t * row;
    float* x = q;
    for (int64_t h = 0; h < heads; ++h, x += dim) {
      if (args.spec.interleaved) {
        RotateHead<true>(cos, sin, sign, half, x);
      } else {
        RotateHead<false>(cos, sin, sign, half, x);
      }
    }
    if (args.query_scale == nullptr) continue;
    ScaleRow(args.query_scale[args.positions[t]], q, args.spec.num_heads * dim);
  }
}

void Rotate(const RopeArgs& args, float sign) {
  cpu::RequireSupported(RopeSupports(args.spec), "Rope");
  const int64_t heads = args.spec.num_heads + args.spec.num_kv_heads;
  cpu::ParallelFor(args.tokens, heads * RotatedElements(args.spec),
                   [&](int64_t begin, int64_t end) { RotateTokens(args, sign, begin, end); });
}

}  // namespace

bool RopeSupports(const RopeSpec& spec) {
  const int64_t rotated = RotatedElements(spec);
  return spec.dtype == DType::kFloat32 && spec.num_heads > 0 && spec.num_kv_heads > 0 &&
         rotated > 0 && rotated % 2 == 0 && rotated <= spec.head_dim;
}

void RopeForward(const RopeArgs& args, Stream* stream) { Rotate(args, 1.0f); }
void RopeBackward(const RopeArgs& args, Stream* stream) { Rotate(args, -1.0f); }

}  // namespace coxswain::kernels
