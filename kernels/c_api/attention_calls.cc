// Translates the structs of kernels/c_api/c_api.h into those of the ops: rotation and attention.
#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/c_api/calls.h"
#include "kernels/products/rotated_linear.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"

namespace coxswain::kernels::c_api {
namespace {

RopeArgs Rotation(const coxswain_rope_args& args) {
  return {.spec = {.dtype = Type(args.dtype),
                   .num_heads = args.num_heads,
                   .num_kv_heads = args.num_kv_heads,
                   .head_dim = args.head_dim,
                   .rotated = args.rotated,
                   .interleaved = args.interleaved != 0},
          .tokens = args.tokens,
          .qkv = args.qkv,
          .cos = args.cos,
          .sin = args.sin,
          .positions = args.positions,
          .query_scale = args.query_scale};
}

LatentHeadsSpec SpecOf(const coxswain_latent_heads_args& args) {
  return {.dtype = Type(args.dtype),
          .heads = args.heads,
          .nope = args.nope,
          .rope = args.rope,
          .value = args.value,
          .interleaved = args.interleaved != 0};
}

SplitRowsSpec SpecOf(const coxswain_split_rows_args& args) {
  return {.dtype = Type(args.dtype), .first = args.first_columns, .second = args.second_columns};
}

AttentionSpec HeadsSpec(const coxswain_attention_args& args) {
  return {.dtype = Type(args.dtype),
          .num_heads = args.num_heads,
          .num_kv_heads = args.num_kv_heads,
          .head_dim = args.head_dim,
          .value_dim = args.value_dim,
          .q_row = args.q_row,
          .kv_row = args.kv_row,
          .v_row = args.v_row,
          .window = args.window,
          .scale = args.scale,
          .softcap = args.softcap,
          .sinks = args.sinks != nullptr,
          .sink_dtype = Type(args.sink_dtype),
          .deterministic = args.deterministic != 0,
          .fp8 = args.fp8 != 0};
}

AttentionExtents Extents(const coxswain_attention_args& args) {
  return {.tokens = args.tokens,
          .documents = args.documents,
          .max_length = args.max_length,
          .dense = args.dense != 0};
}

Documents PackedDocuments(const coxswain_attention_args& args) {
  return {.count = args.documents,
          .cu_seqlens = args.cu_seqlens,
          .max_length = args.max_length,
          .dense = args.dense != 0};
}

CachedAttentionSpec SpecOf(const coxswain_cached_attention_args& args) {
  return {.attention = {.dtype = Type(args.dtype),
                        .num_heads = args.num_heads,
                        .num_kv_heads = args.num_kv_heads,
                        .head_dim = args.head_dim,
                        .value_dim = args.value_dim,
                        .window = args.window,
                        .scale = args.scale,
                        .softcap = args.softcap,
                        .sinks = args.sinks != nullptr,
                        .sink_dtype = Type(args.sink_dtype)},
          .length = args.length};
}

CacheRows RowsOf(const coxswain_cached_attention_args& args) {
  return {.count = args.rows, .sequences = args.sequences, .positions = args.positions};
}

}  // namespace
}  // namespace coxswain::kernels::c_api

namespace kernels = coxswain::kernels;
namespace c_api = coxswain::kernels::c_api;

extern "C" {

int coxswain_rope_forward(const coxswain_rope_args* args, void* stream) {
  return c_api::Guarded([&] { kernels::RopeForward(c_api::Rotation(*args), c_api::Wrap(stream)); });
}

int coxswain_rope_backward(const coxswain_rope_args* args, void* stream) {
  return c_api::Guarded(
      [&] { kernels::RopeBackward(c_api::Rotation(*args), c_api::Wrap(stream)); });
}

int coxswain_latent_heads_forward(const coxswain_latent_heads_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::LatentHeadsForward({.spec = c_api::SpecOf(*args),
                                 .tokens = args->tokens,
                                 .places = {args->cos, args->sin, args->positions},
                                 .q = args->q,
                                 .kv = args->kv,
                                 .k_rope = args->k_rope,
                                 .qkv = args->qkv},
                                c_api::Wrap(stream));
  });
}

int coxswain_latent_heads_backward(const coxswain_latent_heads_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::LatentHeadsBackward({.spec = c_api::SpecOf(*args),
                                  .tokens = args->tokens,
                                  .places = {args->cos, args->sin, args->positions},
                                  .dqkv = args->dqkv,
                                  .dq = args->dq,
                                  .dkv = args->dkv,
                                  .dk_rope = args->dk_rope},
                                 c_api::Wrap(stream));
  });
}

int coxswain_split_rows_forward(const coxswain_split_rows_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SplitRowsForward({.spec = c_api::SpecOf(*args),
                               .rows = args->rows,
                               .x = args->x,
                               .first = args->first,
                               .second = args->second},
                              c_api::Wrap(stream));
  });
}

int coxswain_split_rows_backward(const coxswain_split_rows_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::SplitRowsBackward({.spec = c_api::SpecOf(*args),
                                .rows = args->rows,
                                .dfirst = args->dfirst,
                                .dsecond = args->dsecond,
                                .dx = args->dx},
                               c_api::Wrap(stream));
  });
}

int coxswain_rotated_linear_forward(const coxswain_rotated_linear_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::RotatedLinearForward({.in_features = args->in_features,
                                   .x = args->x,
                                   .weight = args->weight,
                                   .bias = args->bias,
                                   .rope = c_api::Rotation(args->rope),
                                   .workspace = c_api::Lent(args->workspace)},
                                  c_api::Wrap(stream));
  });
}

int coxswain_prepare_attention(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::PrepareAttention(c_api::HeadsSpec(*args), c_api::Extents(*args), c_api::Wrap(stream));
  });
}

int64_t coxswain_attention_forward_workspace_bytes(const coxswain_attention_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::AttentionForwardWorkspaceBytes(c_api::HeadsSpec(*args), c_api::Extents(*args));
  });
}

int64_t coxswain_attention_backward_workspace_bytes(const coxswain_attention_args* args) {
  return c_api::GuardedBytes([&] {
    return kernels::AttentionBackwardWorkspaceBytes(c_api::HeadsSpec(*args), c_api::Extents(*args));
  });
}

int coxswain_attention_forward(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AttentionForward({.spec = c_api::HeadsSpec(*args),
                               .tokens = args->tokens,
                               .documents = c_api::PackedDocuments(*args),
                               .in = {args->q, args->k, args->v},
                               .sinks = args->sinks,
                               .out = args->out,
                               .lse = args->lse,
                               .rounded = {args->rounded_q, args->rounded_k, args->rounded_v},
                               .workspace = c_api::Lent(args->workspace)},
                              c_api::Wrap(stream));
  });
}

int coxswain_attention_backward(const coxswain_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::AttentionBackward({.spec = c_api::HeadsSpec(*args),
                                .tokens = args->tokens,
                                .documents = c_api::PackedDocuments(*args),
                                .in = {args->q, args->k, args->v},
                                .sinks = args->sinks,
                                .out = args->out,
                                .lse = args->lse,
                                .dout = args->dout,
                                .gradients = {args->dq, args->dk, args->dv},
                                .sink_gradient = args->dsinks,
                                .workspace = c_api::Lent(args->workspace)},
                               c_api::Wrap(stream));
  });
}

int coxswain_cache_append(const coxswain_cached_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CacheAppend({.spec = c_api::SpecOf(*args),
                          .rows = c_api::RowsOf(*args),
                          .qkv = args->qkv,
                          .cache = {args->keys, args->values}},
                         c_api::Wrap(stream));
  });
}

int64_t coxswain_cached_attention_workspace_bytes(const coxswain_cached_attention_args* args) {
  return c_api::GuardedBytes(
      [&] { return kernels::CachedAttentionWorkspaceBytes(c_api::SpecOf(*args), args->rows); });
}

int coxswain_cached_attention(const coxswain_cached_attention_args* args, void* stream) {
  return c_api::Guarded([&] {
    kernels::CachedAttention({.spec = c_api::SpecOf(*args),
                              .rows = c_api::RowsOf(*args),
                              .qkv = args->qkv,
                              .sinks = args->sinks,
                              .cache = {args->keys, args->values},
                              .out = args->out,
                              .workspace = c_api::Lent(args->workspace)},
                             c_api::Wrap(stream));
  });
}

}  // extern "C"
