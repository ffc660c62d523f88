// Blocks of query rows against tiles of keys, one tile after another. Codes are decoded, multiplied
// in float32, and scaled behind the product: products of codes are exact, so are powers of two.
// Keys and values of a tile are made into codes again for every block of rows, a part in 128 of
// what its products take. Every sum has a fixed order. A row of a block that sees nothing of a tile
// leaves it out, for 0 times the codes of a tile that is not finite is NaN.
#include "kernels/cpu/attention/fp8_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/fp8_attention.h"
#include "kernels/cpu/amax.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/quantize/fp8_values.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The numbers of the codes of factor times x.
COXSWAIN_VECTORIZE void RoundToCodes(const float* x, float factor, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = kFp8Values<Fp8Format::kE4M3>[Fp8Code<Fp8Format::kE4M3>(x[i] * factor)];
  }
}

// Rows of one head that share a scale, which it returns. y [rows, n]: the numbers of their codes.
float RoundRows(const float* x, int64_t stride, int64_t rows, int64_t n, float* y) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < rows; ++i) largest = std::max(largest, LargestBits(x + i * stride, n));
  const float scale = Fp8AttentionScale(largest);
  for (int64_t i = 0; i < rows; ++i) RoundToCodes(x + i * stride, 1.0f / scale, y + i * n, n);
  return scale;
}

struct RowState {
  float scale = 0.0f;          // of the spec times sq
  float maximum = -kInfinity;  // m
  float sum = 0.0f;            // l
  float shrink = 0.0f;         // e^{m - m'} of this tile
};

struct Scratch {
  float *q, *k, *v;       // numbers of codes
  float* scores;          // of a tile, then the numbers of the codes of 256 P
  float *product, *sums;  // of a tile, and O
  RowState* rows;
};

// Keys [first, first + keys) of a document.
struct Tile {
  int64_t first, keys;
  float key_scale, value_scale;
};

// The keys that position i of the block sees, as columns of a tile.
struct Columns {
  int64_t begin, end;
};
Columns SeenBy(const AttentionShape& shape, const AttentionBlock& block, const Tile& tile,
               int64_t i) {
  const int64_t behind = block.first + i + 1;
  const int64_t first = shape.window == 0 ? 0 : std::max<int64_t>(0, behind - shape.window);
  return {std::max<int64_t>(0, first - tile.first), std::min(behind - tile.first, tile.keys)};
}

COXSWAIN_INLINE float MaximumOf(const float* s, int64_t n, float least) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = least;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = lanes[j] < s[i + j] ? s[i + j] : lanes[j];
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = lanes[j] < s[i + j] ? s[i + j] : lanes[j];
  float maximum = lanes[0];
  for (const float lane : lanes) maximum = maximum < lane ? lane : maximum;
  return maximum;
}

// Products of codes -> P, 0 outside what the row sees.
COXSWAIN_VECTORIZE void SoftmaxOfTile(float scale, const Columns& seen, int64_t keys, float* s,
                                      RowState* row) {
  for (int64_t j = 0; j < seen.begin; ++j) s[j] = 0.0f;
  for (int64_t j = seen.end; j < keys; ++j) s[j] = 0.0f;
  float* z = s + seen.begin;
  const int64_t n = seen.end - seen.begin;
  for (int64_t j = 0; j < n; ++j) z[j] *= scale;
  const float maximum = MaximumOf(z, n, row->maximum);
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      z[i + j] = Exp(z[i + j] - maximum);
      lanes[j] += z[i + j];
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    z[i + j] = Exp(z[i + j] - maximum);
    lanes[j] += z[i + j];
  }
  row->shrink = Exp(row->maximum - maximum);
  row->sum = row->sum * row->shrink + SumLanes(lanes);
  row->maximum = maximum;
}

COXSWAIN_VECTORIZE void AddProduct(const float* product, float scale, float shrink, float* sums,
                                   int64_t n) {
  for (int64_t j = 0; j < n; ++j) sums[j] = shrink * sums[j] + scale * product[j];
}
COXSWAIN_VECTORIZE void ScaleRow(float scale, float* x, int64_t n) {
  for (int64_t j = 0; j < n; ++j) x[j] *= scale;
}

// fn(row, position in the block) of all rows of a block.
template <typename Fn>
void ForEachRow(const AttentionShape& shape, const AttentionBlock& block, const Fn& fn) {
  for (int64_t row = 0; row < shape.heads * block.queries; ++row) fn(row, row % block.queries);
}

void StartRows(const AttentionForwardArgs& args, const AttentionShape& shape,
               const AttentionBlock& block, const float* q, const Scratch& scratch) {
  GatherBlock({shape, block, shape.dim, shape.q_row, 1.0f}, q, scratch.q);
  ForEachRow(shape, block, [&](int64_t row, int64_t /*position*/) {
    float* const x = scratch.q + row * shape.dim;
    const float scale = RoundRows(x, shape.dim, 1, shape.dim, x);
    scratch.rows[row] = {.scale = args.spec.scale * scale};
    std::fill_n(scratch.sums + row * shape.value_dim, shape.value_dim, 0.0f);
  });
}

void AddTile(const AttentionShape& shape, const AttentionBlock& block, const Tile& tile,
             const Scratch& scratch) {
  const int64_t rows = shape.heads * block.queries, value_dim = shape.value_dim;
  Sgemm({.m = rows,
         .n = tile.keys,
         .k = shape.dim,
         .alpha = 1.0f,
         .a = {scratch.q, shape.dim},
         .b = {scratch.k, shape.dim, true},
         .beta = 0.0f,
         .c = scratch.scores,
         .stride_c = tile.keys});
  ForEachRow(shape, block, [&](int64_t row, int64_t position) {
    const Columns seen = SeenBy(shape, block, tile, position);
    float* const s = scratch.scores + row * tile.keys;
    if (seen.begin >= seen.end) {
      std::fill_n(s, tile.keys, 0.0f);
      return;
    }
    RowState* const state = scratch.rows + row;
    SoftmaxOfTile(state->scale * tile.key_scale, seen, tile.keys, s, state);
    RoundToCodes(s, kFp8ProbabilityScale, s, tile.keys);
  });
  Sgemm({.m = rows,
         .n = value_dim,
         .k = tile.keys,
         .alpha = 1.0f,
         .a = {scratch.scores, tile.keys},
         .b = {scratch.v, value_dim},
         .beta = 0.0f,
         .c = scratch.product,
         .stride_c = value_dim});
  ForEachRow(shape, block, [&](int64_t row, int64_t position) {
    const Columns seen = SeenBy(shape, block, tile, position);
    if (seen.begin >= seen.end) return;
    AddProduct(scratch.product + row * value_dim, tile.value_scale, scratch.rows[row].shrink,
               scratch.sums + row * value_dim, value_dim);
  });
}

// sinks and lse point at the first head of the group, lse at token 0; its heads are `tokens` apart.
void FinishRows(const AttentionShape& shape, const AttentionBlock& block, const float* sinks,
                const Scratch& scratch, float* lse, int64_t tokens) {
  ForEachRow(shape, block, [&](int64_t row, int64_t position) {
    const int64_t head = row / block.queries;
    const RowState& state = scratch.rows[row];
    float maximum = state.maximum, shrink = 1.0f, sum = state.sum;
    if (sinks != nullptr) {
      maximum = maximum < sinks[head] ? sinks[head] : maximum;
      shrink = Exp(state.maximum - maximum);
      sum = sum * shrink + Exp(sinks[head] - maximum);
    }
    lse[head * tokens + block.start + block.first + position] = maximum + std::log(sum);
    ScaleRow(shrink / (kFp8ProbabilityScale * sum), scratch.sums + row * shape.value_dim,
             shape.value_dim);
  });
}

void ForwardBlock(const AttentionForwardArgs& args, const AttentionShape& shape,
                  const AttentionBlock& block, int64_t length, int64_t g, const Scratch& scratch) {
  const BlockPlaces at = PlacesOf(shape, block, g);
  const float* k = static_cast<const float*>(args.in.k) + block.start * shape.k_row + g * shape.dim;
  const float* v =
      static_cast<const float*>(args.in.v) + block.start * shape.v_row + g * shape.value_dim;
  StartRows(args, shape, block, static_cast<const float*>(args.in.q) + at.query, scratch);
  Tile tile;
  tile.first = block.key_first / kFp8AttentionKeys * kFp8AttentionKeys;
  for (; tile.first < block.first + block.queries; tile.first += kFp8AttentionKeys) {
    tile.keys = std::min<int64_t>(kFp8AttentionKeys, length - tile.first);
    tile.key_scale =
        RoundRows(k + tile.first * shape.k_row, shape.k_row, tile.keys, shape.dim, scratch.k);
    tile.value_scale =
        RoundRows(v + tile.first * shape.v_row, shape.v_row, tile.keys, shape.value_dim, scratch.v);
    AddTile(shape, block, tile, scratch);
  }
  FinishRows(shape, block, SinksOfGroup(args.sinks, at), scratch, args.lse + at.heads * args.tokens,
             args.tokens);
  ScatterBlock({shape, block, shape.value_dim, shape.out_row, 1.0f}, scratch.sums,
               static_cast<float*>(args.out) + at.out);
}

// Stores what the codes of rows of one head stand for, which have one scale. `codes` [rows, n] is
// scratch.
void StoreRounded(const float* x, int64_t stride, int64_t rows, int64_t n, float* codes, float* y) {
  const float scale = RoundRows(x, stride, rows, n, codes);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) y[i * stride + j] = scale * codes[i * n + j];
  }
}

// Of a document and a kv head.
void RoundDocument(const AttentionForwardArgs& args, const AttentionShape& shape, int64_t start,
                   int64_t length, int64_t g, const Scratch& scratch) {
  const auto from = [](const void* data, int64_t at) {
    return static_cast<const float*>(data) + at;
  };
  const auto to = [](void* data, int64_t at) { return static_cast<float*>(data) + at; };
  for (int64_t t = start; t < start + length; ++t) {
    for (int64_t h = g * shape.heads; h < (g + 1) * shape.heads; ++h) {
      const int64_t at = t * shape.q_row + h * shape.dim;
      StoreRounded(from(args.in.q, at), shape.dim, 1, shape.dim, scratch.q, to(args.rounded.q, at));
    }
  }
  for (int64_t first = 0; first < length; first += kFp8AttentionKeys) {
    const int64_t keys = std::min<int64_t>(kFp8AttentionKeys, length - first);
    const int64_t k = (start + first) * shape.k_row + g * shape.dim;
    const int64_t v = (start + first) * shape.v_row + g * shape.value_dim;
    StoreRounded(from(args.in.k, k), shape.k_row, keys, shape.dim, scratch.k,
                 to(args.rounded.k, k));
    StoreRounded(from(args.in.v, v), shape.v_row, keys, shape.value_dim, scratch.v,
                 to(args.rounded.v, v));
  }
}

constexpr int64_t kRowStateFloats = sizeof(RowState) / sizeof(float);

Scratch TakeScratch(const AttentionShape& shape, const Workspace& workspace) {
  const int64_t rows = shape.block_rows();
  Pieces pieces(workspace);
  Scratch scratch;
  scratch.q = pieces.Take(rows * shape.dim);
  scratch.k = pieces.Take(kFp8AttentionKeys * shape.dim);
  scratch.v = pieces.Take(kFp8AttentionKeys * shape.value_dim);
  scratch.scores = pieces.Take(rows * kFp8AttentionKeys);
  scratch.product = pieces.Take(rows * shape.value_dim);
  scratch.sums = pieces.Take(rows * shape.value_dim);
  scratch.rows = reinterpret_cast<RowState*>(pieces.Take(rows * kRowStateFloats));
  return scratch;
}

}  // namespace

int64_t Fp8AttentionWorkspaceBytes(const AttentionSpec& spec) {
  const AttentionShape shape(spec);
  const int64_t rows = shape.block_rows();
  return AlignedFloatBytes(rows * shape.dim) + AlignedFloatBytes(kFp8AttentionKeys * shape.dim) +
         AlignedFloatBytes(kFp8AttentionKeys * shape.value_dim) +
         AlignedFloatBytes(rows * kFp8AttentionKeys) +
         2 * AlignedFloatBytes(rows * shape.value_dim) + AlignedFloatBytes(rows * kRowStateFloats);
}

// Codes of what was rounded stand for the same values, whatever their scale has become.
void Fp8AttentionForward(const AttentionForwardArgs& unrounded) {
  const AttentionShape shape(unrounded.spec);
  const Scratch scratch = TakeScratch(shape, unrounded.workspace);
  AttentionForwardArgs args = unrounded;
  args.in = {args.rounded.q, args.rounded.k, args.rounded.v};
  ForEachDocumentHead(args.documents, args.spec.num_kv_heads,
                      [&](int64_t start, int64_t length, int64_t g) {
                        RoundDocument(unrounded, shape, start, length, g, scratch);
                      });
  ForEachDocumentHead(args.documents, args.spec.num_kv_heads,
                      [&](int64_t start, int64_t length, int64_t g) {
                        for (int64_t first = 0; first < length; first += shape.block_queries) {
                          const AttentionBlock block = MakeBlock(shape, start, length, first);
                          ForwardBlock(args, shape, block, length, g, scratch);
                        }
                      });
}

}  // namespace coxswain::kernels::cpu
