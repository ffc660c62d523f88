// One query head of one row at a time, over its keys in tiles: scores of a tile, then maximum m,
// sum l and O, rescaled when m grows (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018). Reads 2 hd floats per key and head; scratch is on the stack.
#include "kernels/cached_attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kTileKeys = 64, kMostHeadDim = 256;

// Keys and values of one head that a row sees, `stride` floats apart.
struct SeenKeys {
  const float *keys, *values;
  int64_t count, stride;
};

// Scaled and capped scores of keys [first, first + n), and their maximum beside `maximum`.
COXSWAIN_INLINE float Scores(const AttentionSpec& spec, const float* q, const float* keys,
                             int64_t stride, int64_t n, float maximum, float* scores) {
  for (int64_t j = 0; j < n; ++j) {
    scores[j] = cpu::Dot(q, keys + j * stride, spec.head_dim) * spec.scale;
    if (spec.softcap != 0.0f) scores[j] = cpu::Cap(scores[j], spec.softcap);
    maximum = maximum < scores[j] ? scores[j] : maximum;
  }
  return maximum;
}

COXSWAIN_VECTORIZE void AttendHead(const AttentionSpec& spec, const float* q, const SeenKeys& seen,
                                   float* out) {
  float scores[kTileKeys], sums[kMostHeadDim] = {};
  float maximum = -std::numeric_limits<float>::infinity(), total = 0.0f;
  for (int64_t first = 0; first < seen.count; first += kTileKeys) {
    const int64_t n = std::min(kTileKeys, seen.count - first);
    const float before = maximum;
    maximum = Scores(spec, q, seen.keys + first * seen.stride, seen.stride, n, maximum, scores);
    const float kept = first == 0 ? 0.0f : cpu::Exp(before - maximum);
    total *= kept;
    for (int64_t c = 0; c < spec.head_dim; ++c) sums[c] *= kept;
    for (int64_t j = 0; j < n; ++j) {
      const float p = cpu::Exp(scores[j] - maximum);
      const float* value = seen.values + (first + j) * seen.stride;
      total += p;
      for (int64_t c = 0; c < spec.head_dim; ++c) sums[c] += p * value[c];
    }
  }
  for (int64_t c = 0; c < spec.head_dim; ++c) out[c] = sums[c] / total;
}

void AttendRow(const CachedAttentionArgs& args, int64_t row, int64_t head) {
  const AttentionSpec& spec = args.spec.attention;
  const int64_t dim = spec.head_dim;
  float* out = static_cast<float*>(args.out) + (row * spec.num_heads + head) * dim;
  const int64_t sequence = args.rows.sequences[row], position = args.rows.positions[row];
  if (sequence < 0) {
    std::fill_n(out, dim, 0.0f);
    return;
  }
  const int64_t first = spec.window == 0 ? 0 : std::max<int64_t>(0, position + 1 - spec.window);
  const int64_t stride = spec.num_kv_heads * dim;
  const int64_t group = spec.num_heads / spec.num_kv_heads;
  const int64_t offset = (sequence * args.spec.length + first) * stride + head / group * dim;
  const SeenKeys seen = {static_cast<const float*>(args.cache.keys) + offset,
                         static_cast<const float*>(args.cache.values) + offset,
                         position + 1 - first, stride};
  const float* q = static_cast<const float*>(args.qkv) + row * PackedRow(spec) + head * dim;
  AttendHead(spec, q, seen, out);
}

}  // namespace

bool CachedAttentionSupports(const CachedAttentionSpec& spec) {
  const AttentionSpec& attention = spec.attention;
  return AttentionSupports(attention) && attention.head_dim <= kMostHeadDim &&
         attention.q_row == 0 && attention.kv_row == 0 && spec.length > 0;
}

void CacheAppend(const CacheAppendArgs& args, Stream* stream) {
  cpu::RequireSupported(CachedAttentionSupports(args.spec), "CacheAppend");
  const AttentionSpec& spec = args.spec.attention;
  const int64_t width = spec.num_kv_heads * spec.head_dim;
  const HeadInputs rows = PackedInputs(spec, args.qkv);
  const auto* k = static_cast<const float*>(rows.k);
  const auto* v = static_cast<const float*>(rows.v);
  for (int64_t row = 0; row < args.rows.count; ++row) {
    if (args.rows.sequences[row] < 0) continue;
    const int64_t place =
        (args.rows.sequences[row] * args.spec.length + args.rows.positions[row]) * width;
    const auto bytes = static_cast<size_t>(width) * sizeof(float);
    const int64_t from = row * PackedRow(spec);
    std::memcpy(static_cast<float*>(args.cache.keys) + place, k + from, bytes);
    std::memcpy(static_cast<float*>(args.cache.values) + place, v + from, bytes);
  }
}

int64_t CachedAttentionWorkspaceBytes(const CachedAttentionSpec& spec, int64_t rows) { return 0; }

void CachedAttention(const CachedAttentionArgs& args, Stream* stream) {
  cpu::RequireSupported(CachedAttentionSupports(args.spec), "CachedAttention");
  const AttentionSpec& spec = args.spec.attention;
  const int64_t work = args.spec.length * spec.head_dim;
  cpu::ParallelFor(args.rows.count * spec.num_heads, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) AttendRow(args, i / spec.num_heads, i % spec.num_heads);
  });
}

}  // namespace coxswain::kernels
