/* Of kernels/c_api/c_api.h: rope.h, rotated_linear.h, heads.h, rows.h, attention.h and
 * cached_attention.h. */
#ifndef COXSWAIN_KERNELS_C_API_ATTENTION_H_
#define COXSWAIN_KERNELS_C_API_ATTENTION_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t dtype;
  int32_t interleaved;
  int64_t num_heads, num_kv_heads, head_dim;
  int64_t rotated; /* r, leading elements of a head that turn; 0: all */
  int64_t tokens;
  void* qkv;                /* [tokens, (num_heads + 2 num_kv_heads) head_dim], in place */
  const float* cos;         /* [positions, r / 2] */
  const float* sin;         /* [positions, r / 2] */
  const int32_t* positions; /* [tokens] */
  const float* query_scale; /* [positions]; null: none */
} coxswain_rope_args;
int coxswain_rope_forward(const coxswain_rope_args* args, void* stream);
int coxswain_rope_backward(const coxswain_rope_args* args, void* stream);

/* rope.qkv = x weight^T + bias, q and k turned. */
typedef struct {
  int64_t in_features;
  const void* x;                /* [rope.tokens, in_features] */
  const void* weight;           /* [(num_heads + 2 num_kv_heads) head_dim, in_features] */
  const void* bias;             /* of the columns of qkv; null: none */
  coxswain_rope_args rope;      /* qkv is overwritten */
  coxswain_workspace workspace; /* coxswain_gemm_workspace_bytes() */
} coxswain_rotated_linear_args;
int coxswain_rotated_linear_forward(const coxswain_rotated_linear_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t interleaved;
  int64_t tokens;
  int64_t heads, nope, rope, value; /* elements of a head: stay, turn, of v */
  const float *cos, *sin;           /* [positions, rope / 2] */
  const int32_t* positions;         /* [tokens] */
  const void* q;                    /* [tokens, heads (nope + rope)]; forward only */
  const void* kv;                   /* [tokens, heads (nope + value)]; forward only */
  const void* k_rope;               /* [tokens, rope]; forward only */
  void* qkv;                        /* [tokens, heads (2 (nope + rope) + value)]; forward only */
  const void* dqkv;                 /* as qkv; backward only */
  void *dq, *dkv, *dk_rope;         /* as q, kv and k_rope; backward only */
} coxswain_latent_heads_args;
int coxswain_latent_heads_forward(const coxswain_latent_heads_args* args, void* stream);
int coxswain_latent_heads_backward(const coxswain_latent_heads_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, first_columns, second_columns;
  const void* x;                /* [rows, first_columns + second_columns]; forward only */
  void *first, *second;         /* forward only */
  const void *dfirst, *dsecond; /* backward only */
  void* dx;                     /* as x; backward only */
} coxswain_split_rows_args;
int coxswain_split_rows_forward(const coxswain_split_rows_args* args, void* stream);
int coxswain_split_rows_backward(const coxswain_split_rows_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t deterministic;
  int64_t num_heads, num_kv_heads, head_dim, window;
  float scale, softcap;
  int64_t tokens, documents, max_length;
  int32_t dense;             /* every document has max_length tokens */
  const int32_t* cu_seqlens; /* [documents + 1] */
  /* Elements from row to row of q, and of k and v; 0: views of one [tokens, (num_heads +
   * num_kv_heads) head_dim + num_kv_heads value_dim]. */
  int64_t q_row, kv_row;
  const void *q, *k, *v;
  void* out;          /* [tokens, num_heads value_dim] */
  float* lse;         /* [num_heads tokens] */
  const void* dout;   /* [tokens, num_heads value_dim]; backward only */
  void *dq, *dk, *dv; /* rows as those of q, k and v; backward only */
  coxswain_workspace workspace;
  int64_t value_dim;  /* elements of a head of v, out and dout; 0: head_dim */
  int64_t v_row;      /* elements from row to row of v; 0: as those of k */
  int32_t sink_dtype; /* float32 or dtype */
  const void* sinks;  /* [num_heads], a logit more in the softmax of each head; null: none */
  float* dsinks;      /* [num_heads], added to; null: not asked for; backward only */
  /* not 0: forward multiplies codes in E4M3, a scale of each row of q and of each 128 keys; without
   * softcap, heads at most 128 wide and a multiple of 16; bfloat16, compute capability 9.0 */
  int32_t fp8;
  /* rows as those of q, k and v, and may be these: what their codes stand for, which backward reads
   * as q, k and v; forward with fp8 only */
  void *rounded_q, *rounded_k, *rounded_v;
} coxswain_attention_args;
/* Chooses the algorithms of this shape. Of the pointers it looks at sinks alone, whether they are
 * there, as the functions of workspace bytes do. Takes a second at times. */
int coxswain_prepare_attention(const coxswain_attention_args* args, void* stream);
int64_t coxswain_attention_forward_workspace_bytes(const coxswain_attention_args* args);
int64_t coxswain_attention_backward_workspace_bytes(const coxswain_attention_args* args);
int coxswain_attention_forward(const coxswain_attention_args* args, void* stream);
int coxswain_attention_backward(const coxswain_attention_args* args, void* stream);

/* Single rows over the cached keys and values of one layer. Row r is of sequence sequences[r] and
 * lies at positions[r] of it, in [0, length). */
typedef struct {
  int32_t dtype;
  int64_t num_heads, num_kv_heads, head_dim, window;
  float scale, softcap;
  int64_t length; /* positions that the cache has of each sequence */
  int64_t rows;
  const int32_t* sequences; /* [rows]; -1: none, the row is padding */
  const int32_t* positions; /* [rows] */
  /* [rows, (num_heads + num_kv_heads) head_dim + num_kv_heads value_dim], q and k rotated */
  const void* qkv;
  void* keys;                   /* [sequences, length, num_kv_heads head_dim]; append writes it */
  void* values;                 /* [sequences, length, num_kv_heads value_dim]; append writes it */
  void* out;                    /* [rows, num_heads value_dim]; attention only */
  coxswain_workspace workspace; /* attention only */
  int64_t value_dim;            /* elements of a head of v and out; 0: head_dim */
  int32_t sink_dtype;           /* float32 or dtype */
  const void* sinks;            /* [num_heads], as in coxswain_attention_args; attention only */
} coxswain_cached_attention_args;
/* The places of the rows take their keys and values; no two rows are of one place. */
int coxswain_cache_append(const coxswain_cached_attention_args* args, void* stream);
int64_t coxswain_cached_attention_workspace_bytes(const coxswain_cached_attention_args* args);
int coxswain_cached_attention(const coxswain_cached_attention_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_ATTENTION_H_ */
