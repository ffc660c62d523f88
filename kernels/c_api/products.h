/* Of kernels/c_api/c_api.h: gemm.h, gated_linear.h and bias.h. */
#ifndef COXSWAIN_KERNELS_C_API_PRODUCTS_H_
#define COXSWAIN_KERNELS_C_API_PRODUCTS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  int64_t rows, columns;
  int64_t ldy;    /* elements between rows of dy; 0: columns */
  const void* dy; /* [rows, columns] */
  void* dbias;    /* [columns] of grad_dtype, accumulated */
  coxswain_workspace workspace;
} coxswain_bias_args;
int64_t coxswain_bias_backward_workspace_bytes(const coxswain_bias_args* args);
int coxswain_bias_backward(const coxswain_bias_args* args, void* stream);

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

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_PRODUCTS_H_ */
