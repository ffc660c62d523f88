/* Of kernels/c_api/c_api.h: norms.h and heads.h. */
#ifndef COXSWAIN_KERNELS_C_API_NORMS_H_
#define COXSWAIN_KERNELS_C_API_NORMS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t dtype; /* of everything but rstd and dweight */
  int32_t grad_dtype;
  int64_t rows, hidden;
  float eps, weight_offset;
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
  float weight_offset;
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
  int64_t rows, hidden;
  float eps;
  const void* x;      /* [rows, hidden] */
  const void* weight; /* [hidden] */
  const void* bias;   /* [hidden]; null: none; forward only */
  void* y;            /* [rows, hidden]; forward only */
  float *mean, *rstd; /* [rows]; forward writes them */
  const void* dy;     /* [rows, hidden]; backward only, as what follows */
  int32_t accumulate_dx;
  void* dx;              /* [rows, hidden] */
  void *dweight, *dbias; /* [hidden] of grad_dtype, accumulated; null: frozen, or no bias */
  coxswain_workspace workspace;
} coxswain_layer_norm_args;
int coxswain_layer_norm_forward(const coxswain_layer_norm_args* args, void* stream);
int64_t coxswain_layer_norm_backward_workspace_bytes(const coxswain_layer_norm_args* args);
int coxswain_layer_norm_backward(const coxswain_layer_norm_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_NORMS_H_ */
