/* The ops of libcoxswain_kernels_cuda.so for callers in C and in languages that load C libraries.
 *
 * Each function has the contract of the C++ op of the same name (kernels/<op>.h): device pointers,
 * row-major, launched on `stream`, a cudaStream_t of the current device (null: the default stream);
 * nothing waits for the device. Structs are filled with zeros first; a zero stands for "none".
 * A function returns COXSWAIN_OK or what went wrong, and then coxswain_last_error() says it in
 * words; functions that return bytes return -1. Before the first call: coxswain_select_device.
 */
#ifndef COXSWAIN_KERNELS_C_API_H_
#define COXSWAIN_KERNELS_C_API_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum coxswain_result {
  COXSWAIN_OK = 0,
  COXSWAIN_INVALID_ARGUMENT = 1, /* a violated contract; nothing was launched */
  COXSWAIN_OUT_OF_MEMORY = 2,
  COXSWAIN_DEVICE_ERROR = 3, /* the call failed, later ones may work */
  COXSWAIN_DEVICE_LOST = 4   /* every later call of the process fails */
};

enum coxswain_dtype { COXSWAIN_FLOAT32 = 0, COXSWAIN_BFLOAT16 = 1 };

/* Of the last function that failed on this thread; valid until the next one fails. */
const char* coxswain_last_error(void);

int coxswain_select_device(int index);

typedef struct {
  void* data;
  int64_t bytes;
} coxswain_workspace;

typedef struct {
  int32_t dtype; /* of everything but rstd and dweight */
  int32_t grad_dtype;
  int64_t rows, hidden;
  float eps;
  const void* x;        /* [rows, hidden] */
  const void* residual; /* [rows, hidden]; null: no add */
  const void* weight;   /* [hidden] */
  void* sum;            /* [rows, hidden], x + residual; with residual only */
  void* y;              /* [rows, hidden] */
  float* rstd;          /* [rows] */
} coxswain_rms_norm_args;
int coxswain_rms_norm_forward(const coxswain_rms_norm_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t rows, hidden;
  const void* dy;     /* [rows, hidden] */
  const void* x;      /* [rows, hidden], what was normalised */
  const void* weight; /* [hidden] */
  const float* rstd;  /* [rows] */
  int32_t accumulate_dx;
  void* dx;      /* [rows, hidden] */
  void* dweight; /* [hidden] of grad_dtype, accumulated; null: frozen */
  coxswain_workspace workspace;
} coxswain_rms_norm_backward_args;
int64_t coxswain_rms_norm_backward_workspace_bytes(const coxswain_rms_norm_backward_args* args);
int coxswain_rms_norm_backward(const coxswain_rms_norm_backward_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, intermediate;
  const void* dy; /* [rows, intermediate]; backward only */
  void* gate_up;  /* [rows, 2 intermediate]; backward overwrites it by its gradient */
  void* y;        /* [rows, intermediate]; forward only */
} coxswain_swiglu_args;
int coxswain_swiglu_forward(const coxswain_swiglu_args* args, void* stream);
int coxswain_swiglu_backward(const coxswain_swiglu_args* args, void* stream);

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

typedef struct {
  int32_t dtype;
  int64_t rows, vocab;
  int64_t ld; /* elements between rows of logits; 0: vocab */
  float label_smoothing, z_loss, softcap;
  void* logits;                /* [rows, vocab]; overwritten by the gradient */
  const int32_t* targets;      /* [rows]; -100: ignored */
  const float* gradient_scale; /* one float; null: losses only */
  float* loss;                 /* [rows] */
  float* nll;                  /* [rows]; null: not wanted */
} coxswain_cross_entropy_args;
int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t erf; /* of GELU; 0: the tanh form */
  int64_t rows, intermediate;
  const void* dy; /* [rows, intermediate]; backward only */
  void* gate_up;  /* [rows, 2 intermediate]; backward overwrites it by its gradient */
  void* y;        /* [rows, intermediate]; null: the backward does not give it */
} coxswain_geglu_args;
int coxswain_geglu_forward(const coxswain_geglu_args* args, void* stream);
int coxswain_geglu_backward(const coxswain_geglu_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t erf; /* 0: the tanh form */
  int64_t rows, columns;
  const void* dy; /* [rows, columns]; backward only */
  void* x;        /* [rows, columns]; backward overwrites it by its gradient */
  void* y;        /* [rows, columns]; forward only */
} coxswain_gelu_args;
int coxswain_gelu_forward(const coxswain_gelu_args* args, void* stream);
int coxswain_gelu_backward(const coxswain_gelu_args* args, void* stream);

enum coxswain_activation { COXSWAIN_SILU = 0, COXSWAIN_GELU_TANH = 1, COXSWAIN_GELU = 2 };

typedef struct {
  int32_t dtype;
  int32_t activation;
  int64_t rows, hidden, intermediate;
  const void* x;      /* [rows, hidden]; backward: the gradient of the down projection's output */
  const void* weight; /* [2 intermediate, hidden]; backward: [hidden, intermediate], of down */
  void* gate_up;      /* [rows, 2 intermediate]; backward overwrites it by its gradient */
  void* y;            /* [rows, intermediate]; forward, null: not wanted */
  int32_t wants_y;    /* backward: y is the forward's again, else it holds anything */
  coxswain_workspace workspace; /* coxswain_gemm_workspace_bytes() */
} coxswain_gated_linear_args;
int coxswain_gated_linear_forward(const coxswain_gated_linear_args* args, void* stream);
int coxswain_gated_linear_backward(const coxswain_gated_linear_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t num_heads, num_kv_heads, head_dim;
  float eps, weight_offset;
  int32_t whole; /* one norm over all heads of q, one over those of k */
  int64_t tokens;
  void* qkv;      /* [tokens, (num_heads + 2 num_kv_heads) head_dim], in place; backward: dqkv */
  void* saved_qk; /* [tokens, (num_heads + num_kv_heads) head_dim], forward writes it */
  float* rstd;    /* [tokens, num_heads + num_kv_heads], whole: [tokens, 2]; forward writes it */
  const void *q_weight, *k_weight; /* [head_dim] each, whole: of all heads */
  void *dq_weight, *dk_weight;     /* as the weights, of grad_dtype, accumulated; null: frozen */
  coxswain_workspace workspace;    /* backward only */
} coxswain_qk_norm_args;
int coxswain_qk_norm_forward(const coxswain_qk_norm_args* args, void* stream);
int64_t coxswain_qk_norm_backward_workspace_bytes(const coxswain_qk_norm_args* args);
int coxswain_qk_norm_backward(const coxswain_qk_norm_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t vocab, hidden, tokens;
  float scale;                  /* 0: 1 */
  const int32_t* ids;           /* [tokens], in [0, vocab); backward: -1 is no token */
  const void* weight;           /* [vocab, hidden]; forward only */
  void* out;                    /* [tokens, hidden]; forward only */
  const void* dout;             /* [tokens, hidden]; backward only */
  void* dweight;                /* [vocab, hidden] of grad_dtype, accumulated; backward only */
  coxswain_workspace workspace; /* backward only */
} coxswain_embedding_args;
int coxswain_embedding_forward(const coxswain_embedding_args* args, void* stream);
int64_t coxswain_embedding_backward_workspace_bytes(const coxswain_embedding_args* args);
int coxswain_embedding_backward(const coxswain_embedding_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t rows, columns;
  int64_t ldy;    /* elements between rows of dy; 0: columns */
  const void* dy; /* [rows, columns] */
  void* dbias;    /* [columns] of grad_dtype, accumulated */
  coxswain_workspace workspace;
} coxswain_bias_args;
int64_t coxswain_bias_backward_workspace_bytes(const coxswain_bias_args* args);
int coxswain_bias_backward(const coxswain_bias_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, columns;
  const int32_t* index; /* [rows], rows of the tall matrix, all different; -1: no row */
  const void* in;       /* gather: the tall matrix; scatter: [rows, columns] */
  void* out;            /* gather: [rows, columns]; scatter: the tall matrix, accumulated */
} coxswain_row_gather_args;
int coxswain_gather_rows(const coxswain_row_gather_args* args, void* stream);
int coxswain_scatter_add_rows(const coxswain_row_gather_args* args, void* stream);

/* Up to 3 adapters that share their input; a member's y is a column slice of the packed output. */
typedef struct {
  int32_t dtype, grad_dtype;
  int32_t members;
  int64_t in_features, rank;
  int64_t out_features[3], column_offset[3];
  int64_t ldy; /* columns of the packed output */
  float scale, dropout_rate;
  uint32_t key[2],
      site;             /* of the dropout mask, read where dropout_rate is not 0, as what follows */
  const uint32_t* step; /* one word */
  const uint32_t *bins, *positions; /* [rows] */
  int64_t rows;
  const void* x;                       /* [rows, in_features] */
  const void* a;                       /* [members rank, in_features] */
  const void* b[3];                    /* [out_features, rank] */
  void* h;                             /* [rows, members rank]; forward writes it */
  void* y;                             /* [rows, ldy]; forward only */
  const void* dy;                      /* [rows, ldy]; backward only */
  void* da;                            /* as a, of grad_dtype, accumulated; backward only */
  void* db[3];                         /* as b, likewise */
  void* dx;                            /* [rows, in_features]; null: not wanted; backward only */
  int32_t accumulate_y, accumulate_dx; /* 0: overwritten */
  coxswain_workspace workspace;
} coxswain_lora_linear_args;
int64_t coxswain_lora_linear_forward_workspace_bytes(const coxswain_lora_linear_args* args);
int64_t coxswain_lora_linear_backward_workspace_bytes(const coxswain_lora_linear_args* args);
int coxswain_lora_linear_forward(const coxswain_lora_linear_args* args, void* stream);
int coxswain_lora_linear_backward(const coxswain_lora_linear_args* args, void* stream);

/* Lists of tensors lie in device memory. first_chunk: the sum of ceil(n / COXSWAIN_TENSOR_CHUNK)
 * over the tensors before it in the list; `chunks` of a call is that sum over all of its list. */
enum { COXSWAIN_TENSOR_CHUNK = 16384 };

typedef struct {
  void* p;       /* [n] of p_dtype */
  float* master; /* [n]; null: p is updated itself */
  const void* g; /* [n] of g_dtype */
  void *m, *v;   /* [n] of the call's state_dtype */
  int64_t n;
  int64_t begin; /* element of the parameter that p[0] is, for stochastic rounding */
  int64_t first_chunk;
  double lr_scale, weight_decay;
  uint8_t p_dtype, g_dtype;
  uint32_t index; /* of the parameter, for stochastic rounding */
} coxswain_adamw_tensor;

/* In device memory. */
typedef struct {
  double lr, beta1, beta2, eps;
  int64_t applied_updates; /* before this one */
  double clip_factor;      /* 1 for none */
  int32_t skip;
} coxswain_optimizer_scalars;

typedef struct {
  const coxswain_adamw_tensor* tensors;
  int64_t count, chunks;
  coxswain_optimizer_scalars* scalars;
  int32_t state_dtype;   /* of m and v of every tensor */
  uint32_t key[2];       /* for stochastic rounding of weights */
  uint32_t state_key[2]; /* for that of states */
  const uint32_t* step;  /* likewise, one word in device memory */
  int32_t more_follow;   /* further lists belong to this update: it is not counted yet */
} coxswain_adamw_args;
int coxswain_adamw(const coxswain_adamw_args* args, void* stream);

typedef struct {
  const void* data;
  int64_t elements, first_chunk;
  uint8_t dtype;
} coxswain_norm_tensor;

typedef struct {
  double sum_squares, nonfinite;
} coxswain_norm_sums;

typedef struct {
  const coxswain_norm_tensor* tensors;
  int64_t count, chunks;
  coxswain_norm_sums* sums; /* device memory, overwritten */
  coxswain_workspace workspace;
} coxswain_global_norm_args;
int64_t coxswain_global_norm_workspace_bytes(const coxswain_global_norm_args* args);
int coxswain_global_norm(const coxswain_global_norm_args* args, void* stream);

typedef struct {
  const coxswain_norm_sums* sums;
  double max_norm;                     /* 0: no clipping */
  coxswain_optimizer_scalars* scalars; /* clip_factor and skip are written */
  double* norm;                        /* before clipping */
} coxswain_decide_update_args;
int coxswain_decide_update(const coxswain_decide_update_args* args, void* stream);

/* c = alpha op(a) op(b) + beta c (+ bias). */
typedef struct {
  int32_t dtype, output_dtype;
  int32_t transpose_a, transpose_b;
  int64_t m, n, k;
  float alpha, beta;
  const void *a, *b, *bias;
  void* c;
  int64_t lda, ldb, ldc;
  coxswain_workspace workspace;
} coxswain_gemm_args;
int64_t coxswain_gemm_workspace_bytes(void);
/* While on, the first launch of each shape times the candidates: not while capturing a graph. */
int coxswain_set_gemm_tuning(int on);
int coxswain_gemm(const coxswain_gemm_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int32_t deterministic;
  int64_t num_heads, num_kv_heads, head_dim, window;
  float scale, softcap;
  int64_t tokens, documents, max_length;
  int32_t dense;             /* every document has max_length tokens */
  const int32_t* cu_seqlens; /* [documents + 1] */
  /* Elements from row to row of q, and of k and v; 0: views of one [tokens, (num_heads + 2
   * num_kv_heads) head_dim]. */
  int64_t q_row, kv_row;
  const void *q, *k, *v;
  void* out;          /* [tokens, num_heads head_dim] */
  float* lse;         /* [num_heads tokens] */
  const void* dout;   /* [tokens, num_heads head_dim]; backward only */
  void *dq, *dk, *dv; /* rows as those of q, k and v; backward only */
  coxswain_workspace workspace;
} coxswain_attention_args;
/* Chooses the algorithms of this shape; pointers are not looked at. Takes a second at times. */
int coxswain_prepare_attention(const coxswain_attention_args* args, void* stream);
int64_t coxswain_attention_forward_workspace_bytes(const coxswain_attention_args* args);
int64_t coxswain_attention_backward_workspace_bytes(const coxswain_attention_args* args);
int coxswain_attention_forward(const coxswain_attention_args* args, void* stream);
int coxswain_attention_backward(const coxswain_attention_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_H_ */
