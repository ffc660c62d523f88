/* Of kernels/c_api/c_api.h: rows.h, cross_entropy.h and cut_cross_entropy.h. */
#ifndef COXSWAIN_KERNELS_C_API_TOKENS_H_
#define COXSWAIN_KERNELS_C_API_TOKENS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t dtype;
  int64_t rows, vocab;
  int64_t ld; /* elements between rows of logits and gradient; 0: vocab */
  float label_smoothing, z_loss, softcap;
  void* logits;                /* [rows, vocab] */
  void* gradient;              /* [rows, vocab]; null: overwrites the logits */
  const int32_t* targets;      /* [rows]; -100: ignored */
  const float* gradient_scale; /* one float; null: losses only */
  float* loss;                 /* [rows] */
  float* nll;                  /* [rows]; null: not wanted */
  const float* row_weights;    /* [rows], multiply the gradient scale; null: all 1 */
} coxswain_cross_entropy_args;
int coxswain_cross_entropy(const coxswain_cross_entropy_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype; /* of x and weight; of dweight */
  int64_t rows, hidden, vocab;
  float logit_scale; /* 0: 1 */
  float label_smoothing, z_loss, softcap;
  const void* x;               /* [rows, hidden] */
  const void* weight;          /* [vocab, hidden] */
  const int32_t* targets;      /* [rows]; -100: ignored */
  float* loss;                 /* [rows]; forward only */
  float* nll;                  /* [rows]; null: not wanted; forward only */
  float* hits;                 /* [rows]; null: not wanted; forward only */
  float* statistics;           /* [rows, 2]: forward writes what backward reads */
  const float* gradient_scale; /* one float; backward only */
  const float* row_weights;    /* [rows]; null: all 1; backward only */
  float* dx;                   /* [rows, hidden]; null: not wanted; backward only */
  void* dweight;               /* [vocab, hidden] of grad_dtype; null: not wanted; backward only */
  int32_t accumulate;          /* 1: dweight is added to; backward only */
  coxswain_workspace workspace;
} coxswain_cut_cross_entropy_args;
/* Of wide panels, at most 136 MiB unless the rows need more. The op runs with less, slower. */
int64_t coxswain_cut_cross_entropy_workspace_bytes(const coxswain_cut_cross_entropy_args* args);
int coxswain_cut_cross_entropy_forward(const coxswain_cut_cross_entropy_args* args, void* stream);
int coxswain_cut_cross_entropy_backward(const coxswain_cut_cross_entropy_args* args, void* stream);

typedef struct {
  int32_t dtype, grad_dtype;
  int64_t vocab, hidden, tokens;
  float scale;        /* 0: 1 */
  const int32_t* ids; /* [tokens], in [0, vocab); backward: -1 is no token */
  const void* weight; /* [vocab, hidden]; forward only */
  void* out;          /* [tokens, hidden]; forward only */
  const void* dout;   /* [tokens, hidden]; backward only */
  void* dweight;      /* [vocab, hidden] of grad_dtype, accumulated; backward only */
  int64_t begin, end; /* elements of dweight that are added to; end 0: all; backward only */
  coxswain_workspace workspace; /* backward only */
} coxswain_embedding_args;
int coxswain_embedding_forward(const coxswain_embedding_args* args, void* stream);
int64_t coxswain_embedding_backward_workspace_bytes(const coxswain_embedding_args* args);
int coxswain_embedding_backward(const coxswain_embedding_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, columns;
  const int32_t* index; /* [rows], rows of the tall matrix, all different; -1: no row */
  const void* in;       /* gather: the tall matrix; scatter: [rows, columns] */
  void* out;            /* gather: [rows, columns]; scatter: the tall matrix, accumulated */
} coxswain_row_gather_args;
int coxswain_gather_rows(const coxswain_row_gather_args* args, void* stream);
int coxswain_scatter_add_rows(const coxswain_row_gather_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, vocab;
  int64_t ld;             /* elements between rows of logits; 0: vocab */
  const void* logits;     /* [rows, vocab] */
  const int32_t* targets; /* [rows]; outside [0, vocab): no hit */
  float* hits;            /* [rows], 1 where the target is the row's first maximum, else 0 */
} coxswain_target_hits_args;
int coxswain_target_hits(const coxswain_target_hits_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t rows, width;
  int64_t ld;         /* elements between rows of values; 0: width */
  const void* values; /* [rows, width] */
  int32_t* columns;   /* [rows], of the first maximum; -1 where the row holds a NaN */
} coxswain_argmax_args;
int coxswain_argmax(const coxswain_argmax_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_TOKENS_H_ */
