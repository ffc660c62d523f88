// One pass over the rows of a token, head by head: 8 bytes per element of the packed row. The sum
// over heads is taken in the order of the heads.
#include "kernels/attention/heads.h"

#include <algorithm>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

// The angles of a token; sign -1 turns back.
struct Turn {
  const float *cos, *sin;
  float sign;
  int64_t half;
  bool interleaved;
};

COXSWAIN_INLINE void TurnHead(const Turn& turn, const float* x, float* y) {
  const int64_t step = turn.interleaved ? 2 : 1, apart = turn.interleaved ? 1 : turn.half;
  for (int64_t j = 0; j < turn.half; ++j) {
    const float a = x[j * step], b = x[j * step + apart];
    const float c = turn.cos[j], s = turn.sign * turn.sin[j];
    y[j * step] = a * c - b * s;
    y[j * step + apart] = b * c + a * s;
  }
}

Turn TurnOf(const LatentHeadsSpec& spec, const LatentPlaces& places, int64_t token, float sign) {
  const int64_t half = spec.rope / 2, row = places.positions[token] * half;
  return {places.cos + row, places.sin + row, sign, half, spec.interleaved};
}

COXSWAIN_VECTORIZE void ForwardOfToken(const LatentHeadsForwardArgs& args, int64_t token) {
  const LatentHeadsSpec& s = args.spec;
  const Turn turn = TurnOf(s, args.places, token, 1.0f);
  const int64_t width = s.nope + s.rope;
  const float* q = static_cast<const float*>(args.q) + token * LatentQueryRow(s);
  const float* kv = static_cast<const float*>(args.kv) + token * LatentKeyValueRow(s);
  float* out_q = static_cast<float*>(args.qkv) + token * LatentPackedRow(s);
  float* out_k = out_q + s.heads * width;
  float* out_v = out_k + s.heads * width;
  float* shared = out_k + s.nope;  // the first head's
  TurnHead(turn, static_cast<const float*>(args.k_rope) + token * s.rope, shared);
  for (int64_t h = 0; h < s.heads; ++h) {
    std::copy_n(q, s.nope, out_q);
    TurnHead(turn, q + s.nope, out_q + s.nope);
    std::copy_n(kv, s.nope, out_k);
    if (h > 0) std::copy_n(shared, s.rope, out_k + s.nope);
    std::copy_n(kv + s.nope, s.value, out_v);
    q += width;
    kv += s.nope + s.value;
    out_q += width;
    out_k += width;
    out_v += s.value;
  }
}

COXSWAIN_VECTORIZE void BackwardOfToken(const LatentHeadsBackwardArgs& args, int64_t token) {
  const LatentHeadsSpec& s = args.spec;
  const Turn turn = TurnOf(s, args.places, token, -1.0f);
  const int64_t width = s.nope + s.rope;
  const float* in_q = static_cast<const float*>(args.dqkv) + token * LatentPackedRow(s);
  const float* in_k = in_q + s.heads * width;
  const float* in_v = in_k + s.heads * width;
  float* dq = static_cast<float*>(args.dq) + token * LatentQueryRow(s);
  float* dkv = static_cast<float*>(args.dkv) + token * LatentKeyValueRow(s);
  float* shared = static_cast<float*>(args.dk_rope) + token * s.rope;
  std::fill_n(shared, s.rope, 0.0f);
  for (int64_t h = 0; h < s.heads; ++h) {
    std::copy_n(in_q, s.nope, dq);
    TurnHead(turn, in_q + s.nope, dq + s.nope);
    std::copy_n(in_k, s.nope, dkv);
    for (int64_t j = 0; j < s.rope; ++j) shared[j] += in_k[s.nope + j];
    std::copy_n(in_v, s.value, dkv + s.nope);
    in_q += width;
    in_k += width;
    in_v += s.value;
    dq += width;
    dkv += s.nope + s.value;
  }
  TurnHead(turn, shared, shared);
}

}  // namespace

bool LatentHeadsSupports(const LatentHeadsSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.heads > 0 && spec.nope > 0 && spec.rope > 0 &&
         spec.rope % 2 == 0 && spec.value > 0;
}

void LatentHeadsForward(const LatentHeadsForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(LatentHeadsSupports(args.spec), "LatentHeads");
  cpu::ParallelFor(args.tokens, LatentPackedRow(args.spec), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) ForwardOfToken(args, t);
  });
}

void LatentHeadsBackward(const LatentHeadsBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(LatentHeadsSupports(args.spec), "LatentHeads");
  cpu::ParallelFor(args.tokens, LatentPackedRow(args.spec), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) BackwardOfToken(args, t);
  });
}

}  // namespace coxswain::kernels
