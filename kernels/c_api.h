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
  float label_smoothing, z_loss, softcap;
  void* logits;                /* [rows, vocab]; overwritten by the gradient */
  const int32_t* targets;      /* [rows]; -100: ignored */
  const float* gradient_scale; /* one float; null: losses only */
  float* loss;                 /* [rows] */
  float* nll;                  /* [rows]; null: not wanted */
} coxswain_cross_entropy_args;
int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream);

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
  const void* qkv;           /* [tokens, (num_heads + 2 num_kv_heads) head_dim] */
  void* out;                 /* [tokens, num_heads head_dim] */
  float* lse;                /* [num_heads tokens] */
  const void* dout;          /* [tokens, num_heads head_dim]; backward only */
  void* dqkv;                /* as qkv; backward only */
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
