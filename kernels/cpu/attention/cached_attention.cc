// One query head of one row at a time, over its keys in tiles: scores of a tile, then maximum m,
// sum l and O, rescaled when m grows (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018). A sink is m and l = 1 of a key without a value, before the others. Reads hd + vd
// floats per key and head; scratch is on the stack.
#include "kernels/attention/cached_attention.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/attention_contract.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

constexpr int64_t kTileKeys = 64, kMostHeadDim = 256;

// Keys and values of one head that a row sees, `stride` and `value_stride` floats apart.
struct SeenKeys {
  const float *keys, *values;
  int64_t count, stride, value_stride;
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

// sink: of the head; null: it has none.
COXSWAIN_VECTORIZE void AttendHead(const AttentionSpec& spec, const float* q, const SeenKeys& seen,
                                   const float* sink, float* out) {
  float scores[kTileKeys], sums[kMostHeadDim] = {};
  float maximum = sink != nullptr ? *sink : -std::numeric_limits<float>::infinity();
  float total = sink != nullptr ? 1.0f : 0.0f;
  const int64_t dim = ValueDim(spec);
  for (int64_t first = 0; first < seen.count; first += kTileKeys) {
    const int64_t n = std::min(kTileKeys, seen.count - first);
    const float before = maximum;
    maximum = Scores(spec, q, seen.keys + first * seen.stride, seen.stride, n, maximum, scores);
    const float kept = first == 0 && sink == nullptr ? 0.0f : cpu::Exp(before - maximum);
    total *= kept;
    for (int64_t c = 0; c < dim; ++c) sums[c] *= kept;
    for (int64_t j = 0; j < n; ++j) {
      const float p = cpu::Exp(scores[j] - maximum);
      const float* value = seen.values + (first + j) * seen.value_stride;
      total += p;
      for (int64_t c = 0; c < dim; ++c) sums[c] += p * value[c];
    }
  }
  for (int64_t c = 0; c < dim; ++c) out[c] = sums[c] / total;
}

void AttendRow(const CachedAttentionArgs& args, int64_t row, int64_t head) {
  const AttentionSpec& spec = args.spec.attention;
  const int64_t dim = spec.head_dim, value_dim = ValueDim(spec);
  float* out = static_cast<float*>(args.out) + (row * spec.num_heads + head) * value_dim;
  const int64_t sequence = args.rows.sequences[row], position = args.rows.positions[row];
  if (sequence < 0) {
    std::fill_n(out, value_dim, 0.0f);
    return;
  }
  const int64_t first = spec.window == 0 ? 0 : std::max<int64_t>(0, position + 1 - spec.window);
  const int64_t place = (sequence * args.spec.length + first) * spec.num_kv_heads +
                        head / (spec.num_heads / spec.num_kv_heads);
  const SeenKeys seen = {.keys = static_cast<const float*>(args.cache.keys) + place * dim,
                         .values = static_cast<const float*>(args.cache.values) + place * value_dim,
                         .count = position + 1 - first,
                         .stride = spec.num_kv_heads * dim,
                         .value_stride = spec.num_kv_heads * value_dim};
  const float* q = static_cast<const float*>(args.qkv) + row * PackedRow(spec) + head * dim;
  const auto* sinks = static_cast<const float*>(args.sinks);
  AttendHead(spec, q, seen, sinks == nullptr ? nullptr : sinks + head, out);
}

}  // namespace

bool CachedAttentionSupports(const CachedAttentionSpec& spec) {
  const AttentionSpec& attention = spec.attention;
  return AttentionSupports(attention) && attention.head_dim <= kMostHeadDim &&
         ValueDim(attention) <= kMostHeadDim && attention.q_row == 0 && attention.kv_row == 0 &&
         attention.v_row == 0 && spec.length > 0;
}

void CacheAppend(const CacheAppendArgs& args, Stream* stream) {
  cpu::RequireSupported(CachedAttentionSupports(args.spec), "CacheAppend");
  const AttentionSpec& spec = args.spec.attention;
  const int64_t k_width = spec.num_kv_heads * spec.head_dim;
  const int64_t v_width = spec.num_kv_heads * ValueDim(spec);
  const HeadInputs rows = PackedInputs(spec, args.qkv);
  for (int64_t row = 0; row < args.rows.count; ++row) {
    if (args.rows.sequences[row] < 0) continue;
    const int64_t place = args.rows.sequences[row] * args.spec.length + args.rows.positions[row];
    const int64_t from = row * PackedRow(spec);
    std::copy_n(static_cast<const float*>(rows.k) + from, k_width,
                static_cast<float*>(args.cache.keys) + place * k_width);
    std::copy_n(static_cast<const float*>(rows.v) + from, v_width,
                static_cast<float*>(args.cache.values) + place * v_width);
  }
}

int64_t CachedAttentionWorkspaceBytes(const CachedAttentionSpec& spec, int64_t rows) { return 0; }

void CachedAttention(const CachedAttentionArgs& args, Stream* stream) {
  cpu::RequireSupported(CachedAttentionSupports(args.spec), "CachedAttention");
  RequireSinks(args.spec.attention, args.sinks, "CachedAttention");
  const AttentionSpec& spec = args.spec.attention;
  const int64_t work = args.spec.length * spec.head_dim;
  cpu::ParallelFor(args.rows.count * spec.num_heads, work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) AttendRow(args, i / spec.num_heads, i % spec.num_heads);
  });
}

}  // namespace coxswain::kernels
