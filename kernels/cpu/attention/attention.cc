// Blocks of query rows against all keys they see: S = Q K^T, softmax in place, O = P V; backward
// recomputes P from lse. Per block of m rows and n keys: 2 products forward, 5 backward, of 2 m n
// hd (or vd) operations each; masked columns of the last m/heads keys are computed and zeroed. dK
// and dV are accumulated block after block, so their bits are fixed; so are the gradients of sinks.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/attention/attention_contract.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/attention/fp8_attention.h"
#include "kernels/cpu/check.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/vectorize.h"

namespace coxswain::kernels {
namespace {

using cpu::AttentionBlock;
using cpu::AttentionShape;
using cpu::BlockPlaces;
using cpu::ForEachDocumentHead;
using cpu::Pieces;
using cpu::PlacesOf;
using cpu::SinksOfGroup;

// In place: scores -> probabilities, 0 outside [begin, end). Returns the log of the sum, in which
// the head's sink takes part; null: it has none.
COXSWAIN_INLINE float SoftmaxRow(float* s, int64_t begin, int64_t end, int64_t keys,
                                 const float* sink) {
  for (int64_t j = 0; j < begin; ++j) s[j] = 0.0f;
  for (int64_t j = end; j < keys; ++j) s[j] = 0.0f;
  float* z = s + begin;
  const int64_t n = end - begin;
  float lanes[cpu::kLanes];
  for (float& lane : lanes) lane = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) lanes[j] = lanes[j] < z[i + j] ? z[i + j] : lanes[j];
  }
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = lanes[j] < z[i + j] ? z[i + j] : lanes[j];
  float maximum = lanes[0];
  for (float lane : lanes) maximum = maximum < lane ? lane : maximum;
  if (sink != nullptr) maximum = maximum < *sink ? *sink : maximum;
  for (float& lane : lanes) lane = 0.0f;
  for (i = 0; i + cpu::kLanes <= n; i += cpu::kLanes) {
    for (int64_t j = 0; j < cpu::kLanes; ++j) {
      z[i + j] = cpu::Exp(z[i + j] - maximum);
      lanes[j] += z[i + j];
    }
  }
  for (int64_t j = 0; i + j < n; ++j) {
    z[i + j] = cpu::Exp(z[i + j] - maximum);
    lanes[j] += z[i + j];
  }
  float sum = cpu::SumLanes(lanes);
  if (sink != nullptr) sum += cpu::Exp(*sink - maximum);
  const float inverse = 1.0f / sum;
  for (int64_t j = 0; j < n; ++j) z[j] *= inverse;
  return maximum + std::log(sum);
}

// Scaled dot products -> scores.
COXSWAIN_INLINE void CapRow(float softcap, float* s, int64_t begin, int64_t end) {
  if (softcap == 0.0f) return;
  for (int64_t j = begin; j < end; ++j) s[j] = cpu::Cap(s[j], softcap);
}

// Derivative of a score by its scaled dot product.
COXSWAIN_INLINE float CapSlope(float softcap, float score) {
  const float ratio = score / softcap;
  return 1.0f - ratio * ratio;
}

// sinks and lse point at the first head of the group, lse at token 0; its heads are `tokens` apart.
COXSWAIN_VECTORIZE void SoftmaxBlock(const AttentionShape& shape, const AttentionBlock& block,
                                     const float* sinks, float* scores, float* lse,
                                     int64_t tokens) {
  for (int64_t h = 0; h < shape.heads; ++h) {
    float* head_lse = lse + h * tokens + block.start + block.first;
    const float* sink = sinks == nullptr ? nullptr : sinks + h;
    for (int64_t i = 0; i < block.queries; ++i, scores += block.keys) {
      const int64_t begin = block.Begin(i, shape.window), end = block.End(i);
      CapRow(shape.softcap, scores, begin, end);
      head_lse[i] = SoftmaxRow(scores, begin, end, block.keys, sink);
    }
  }
}

struct GradientBlock {
  const float* out;   // [rows, vd]
  const float* dout;  // [rows, vd]
  const float* lse;   // first head of the group, token 0
  int64_t tokens;
  const float* sinks;    // of the group; null: none
  float* sink_gradient;  // added to; null: not asked for
  float* p;              // scores in, probabilities out
  float* ds;             // dP in, dS out
};

// P = exp(S - lse), dS = P (dP - rowsum(dO O)), with softcap c times 1 - (S / c)^2; both 0 where
// masked. Of a sink -sum exp(s - lse) rowsum(dO O) over the block's rows of its head.
COXSWAIN_VECTORIZE void ScoreGradients(const AttentionShape& shape, const AttentionBlock& block,
                                       const GradientBlock& g) {
  for (int64_t h = 0; h < shape.heads; ++h) {
    const float* head_lse = g.lse + h * g.tokens + block.start + block.first;
    float sink_sum = 0.0f;
    for (int64_t i = 0; i < block.queries; ++i) {
      const int64_t row = h * block.queries + i;
      const float delta =
          cpu::Dot(g.out + row * shape.value_dim, g.dout + row * shape.value_dim, shape.value_dim);
      const float shift = head_lse[i];
      if (g.sink_gradient != nullptr) sink_sum += cpu::Exp(g.sinks[h] - shift) * delta;
      float *p = g.p + row * block.keys, *ds = g.ds + row * block.keys;
      const int64_t begin = block.Begin(i, shape.window), end = block.End(i);
      for (int64_t j = 0; j < begin; ++j) p[j] = ds[j] = 0.0f;
      CapRow(shape.softcap, p, begin, end);
      for (int64_t j = begin; j < end; ++j) {
        const float score = p[j];
        p[j] = cpu::Exp(score - shift);
        ds[j] = p[j] * (ds[j] - delta);
        if (shape.softcap != 0.0f) ds[j] *= CapSlope(shape.softcap, score);
      }
      for (int64_t j = end; j < block.keys; ++j) p[j] = ds[j] = 0.0f;
    }
    if (g.sink_gradient != nullptr) g.sink_gradient[h] -= sink_sum;
  }
}

AttentionExtents Extents(const Documents& documents, int64_t tokens) {
  return {.tokens = tokens, .documents = documents.count, .max_length = documents.max_length};
}

void RequireDocuments(const Documents& documents, int64_t tokens) {
  const int32_t* cu = documents.cu_seqlens;
  if (tokens == 0 && documents.count == 0) return;
  bool valid = documents.count > 0 && cu[0] == 0 && cu[documents.count] == tokens;
  for (int64_t i = 0; valid && i < documents.count; ++i) {
    valid = cu[i] <= cu[i + 1] && cu[i + 1] - cu[i] <= documents.max_length;
  }
  if (!valid) {
    throw std::invalid_argument("Attention: cu_seqlens must rise from 0 to " +
                                std::to_string(tokens) + " tokens in steps of at most max_length " +
                                std::to_string(documents.max_length));
  }
}

struct ForwardScratch {
  float *q, *scores, *out;
};

void ForwardBlock(const AttentionForwardArgs& args, const AttentionShape& shape,
                  const AttentionBlock& block, int64_t g, const ForwardScratch& scratch) {
  const BlockPlaces at = PlacesOf(shape, block, g);
  const int64_t rows = shape.heads * block.queries;
  const float* k = static_cast<const float*>(args.in.k) + at.key;
  const float* v = static_cast<const float*>(args.in.v) + at.value;
  cpu::GatherBlock({shape, block, shape.dim, shape.q_row, args.spec.scale},
                   static_cast<const float*>(args.in.q) + at.query, scratch.q);
  cpu::Sgemm({.m = rows,
              .n = block.keys,
              .k = shape.dim,
              .alpha = 1.0f,
              .a = {scratch.q, shape.dim},
              .b = {k, shape.k_row, true},
              .beta = 0.0f,
              .c = scratch.scores,
              .stride_c = block.keys});
  SoftmaxBlock(shape, block, SinksOfGroup(args.sinks, at), scratch.scores,
               args.lse + at.heads * args.tokens, args.tokens);
  cpu::Sgemm({.m = rows,
              .n = shape.value_dim,
              .k = block.keys,
              .alpha = 1.0f,
              .a = {scratch.scores, block.keys},
              .b = {v, shape.v_row},
              .beta = 0.0f,
              .c = scratch.out,
              .stride_c = shape.value_dim});
  cpu::ScatterBlock({shape, block, shape.value_dim, shape.out_row, 1.0f}, scratch.out,
                    static_cast<float*>(args.out) + at.out);
}

struct BackwardScratch {
  float *q, *out, *dout, *dq, *p, *ds;
};

void BackwardBlock(const AttentionBackwardArgs& args, const AttentionShape& shape,
                   const AttentionBlock& block, int64_t g, const BackwardScratch& scratch) {
  const BlockPlaces at = PlacesOf(shape, block, g);
  const int64_t rows = shape.heads * block.queries;
  const float* k = static_cast<const float*>(args.in.k) + at.key;
  const float* v = static_cast<const float*>(args.in.v) + at.value;
  const int64_t dim = shape.dim, value_dim = shape.value_dim, keys = block.keys;
  const float scale = args.spec.scale;
  cpu::GatherBlock({shape, block, dim, shape.q_row, scale},
                   static_cast<const float*>(args.in.q) + at.query, scratch.q);
  cpu::GatherBlock({shape, block, value_dim, shape.out_row, 1.0f},
                   static_cast<const float*>(args.out) + at.out, scratch.out);
  cpu::GatherBlock({shape, block, value_dim, shape.out_row, 1.0f},
                   static_cast<const float*>(args.dout) + at.out, scratch.dout);
  cpu::Sgemm({.m = rows,
              .n = keys,
              .k = dim,
              .alpha = 1.0f,
              .a = {scratch.q, dim},
              .b = {k, shape.k_row, true},
              .beta = 0.0f,
              .c = scratch.p,
              .stride_c = keys});
  cpu::Sgemm({.m = rows,
              .n = keys,
              .k = value_dim,
              .alpha = 1.0f,
              .a = {scratch.dout, value_dim},
              .b = {v, shape.v_row, true},
              .beta = 0.0f,
              .c = scratch.ds,
              .stride_c = keys});
  ScoreGradients(
      shape, block,
      {.out = scratch.out,
       .dout = scratch.dout,
       .lse = args.lse + at.heads * args.tokens,
       .tokens = args.tokens,
       .sinks = SinksOfGroup(args.sinks, at),
       .sink_gradient = args.sink_gradient == nullptr ? nullptr : args.sink_gradient + at.heads,
       .p = scratch.p,
       .ds = scratch.ds});
  cpu::Sgemm({.m = keys,
              .n = value_dim,
              .k = rows,
              .alpha = 1.0f,
              .a = {scratch.p, keys, true},
              .b = {scratch.dout, value_dim},
              .beta = 1.0f,
              .c = static_cast<float*>(args.gradients.v) + at.value,
              .stride_c = shape.v_row});
  cpu::Sgemm({.m = keys,
              .n = dim,
              .k = rows,
              .alpha = 1.0f,
              .a = {scratch.ds, keys, true},
              .b = {scratch.q, dim},
              .beta = 1.0f,
              .c = static_cast<float*>(args.gradients.k) + at.key,
              .stride_c = shape.k_row});
  cpu::Sgemm({.m = rows,
              .n = dim,
              .k = keys,
              .alpha = scale,
              .a = {scratch.ds, keys},
              .b = {k, shape.k_row},
              .beta = 0.0f,
              .c = scratch.dq,
              .stride_c = dim});
  cpu::ScatterBlock({shape, block, dim, shape.q_row, 1.0f}, scratch.dq,
                    static_cast<float*>(args.gradients.q) + at.query);
}

// dK and dV start from 0: blocks are added to them.
void ZeroKeyValueGradients(const AttentionBackwardArgs& args, const AttentionShape& shape) {
  const int64_t heads = args.spec.num_kv_heads;
  for (int64_t t = 0; t < args.tokens; ++t) {
    std::fill_n(static_cast<float*>(args.gradients.k) + t * shape.k_row, heads * shape.dim, 0.0f);
    std::fill_n(static_cast<float*>(args.gradients.v) + t * shape.v_row, heads * shape.value_dim,
                0.0f);
  }
}

}  // namespace

bool AttentionSupports(const AttentionSpec& spec) {
  return spec.dtype == DType::kFloat32 && IsAttention(spec) && (!spec.fp8 || HasFp8Attention(spec));
}

std::string PrepareAttention(const AttentionSpec& spec, const AttentionExtents& extents,
                             Stream* stream) {
  return spec.fp8 ? "blocks of queries on BLAS, forward by codes in FP8"
                  : "blocks of queries on BLAS";
}

int64_t AttentionForwardWorkspaceBytes(const AttentionSpec& spec, const AttentionExtents& extents) {
  if (spec.fp8) return cpu::Fp8AttentionWorkspaceBytes(spec);
  const AttentionShape shape(spec);
  const int64_t rows = shape.block_rows();
  return cpu::AlignedFloatBytes(rows * shape.dim) + cpu::AlignedFloatBytes(rows * shape.value_dim) +
         cpu::AlignedFloatBytes(rows * shape.MaxKeys(extents.max_length));
}

int64_t AttentionBackwardWorkspaceBytes(const AttentionSpec& spec,
                                        const AttentionExtents& extents) {
  const AttentionShape shape(spec);
  const int64_t rows = shape.block_rows();
  return 2 * cpu::AlignedFloatBytes(rows * shape.dim) +
         2 * cpu::AlignedFloatBytes(rows * shape.value_dim) +
         2 * cpu::AlignedFloatBytes(rows * shape.MaxKeys(extents.max_length));
}

void AttentionForward(const AttentionForwardArgs& args, Stream* stream) {
  cpu::RequireSupported(AttentionSupports(args.spec), "Attention");
  RequireSinks(args.spec, args.sinks, "Attention");
  RequireDocuments(args.documents, args.tokens);
  const int64_t longest = args.documents.max_length;
  cpu::RequireWorkspace(
      args.workspace,
      AttentionForwardWorkspaceBytes(args.spec, Extents(args.documents, args.tokens)), "Attention");
  RequireRounded(args);
  if (args.spec.fp8) return cpu::Fp8AttentionForward(args);
  const AttentionShape shape(args.spec);
  Pieces pieces(args.workspace);
  ForwardScratch scratch;
  scratch.q = pieces.Take(shape.block_rows() * shape.dim);
  scratch.out = pieces.Take(shape.block_rows() * shape.value_dim);
  scratch.scores = pieces.Take(shape.block_rows() * shape.MaxKeys(longest));
  ForEachDocumentHead(
      args.documents, args.spec.num_kv_heads, [&](int64_t start, int64_t length, int64_t g) {
        for (int64_t first = 0; first < length; first += shape.block_queries) {
          ForwardBlock(args, shape, cpu::MakeBlock(shape, start, length, first), g, scratch);
        }
      });
}

void AttentionBackward(const AttentionBackwardArgs& args, Stream* stream) {
  cpu::RequireSupported(AttentionSupports(args.spec), "Attention");
  RequireGradients(args);
  RequireDocuments(args.documents, args.tokens);
  const int64_t longest = args.documents.max_length;
  cpu::RequireWorkspace(
      args.workspace,
      AttentionBackwardWorkspaceBytes(args.spec, Extents(args.documents, args.tokens)),
      "Attention");
  const AttentionShape shape(args.spec);
  const int64_t score_floats = shape.block_rows() * shape.MaxKeys(longest);
  Pieces pieces(args.workspace);
  BackwardScratch scratch;
  for (float** piece : {&scratch.q, &scratch.dq}) {
    *piece = pieces.Take(shape.block_rows() * shape.dim);
  }
  for (float** piece : {&scratch.out, &scratch.dout}) {
    *piece = pieces.Take(shape.block_rows() * shape.value_dim);
  }
  scratch.p = pieces.Take(score_floats);
  scratch.ds = pieces.Take(score_floats);
  ZeroKeyValueGradients(args, shape);
  ForEachDocumentHead(
      args.documents, args.spec.num_kv_heads, [&](int64_t start, int64_t length, int64_t g) {
        for (int64_t first = 0; first < length; first += shape.block_queries) {
          BackwardBlock(args, shape, cpu::MakeBlock(shape, start, length, first), g, scratch);
        }
      });
  if (args.rotation != nullptr) RopeBackward(*args.rotation, stream);
}

}  // namespace coxswain::kernels
