/* Of kernels/c_api/c_api.h: score_loss.h. */
#ifndef COXSWAIN_KERNELS_C_API_SCORES_H_
#define COXSWAIN_KERNELS_C_API_SCORES_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t dtype;         /* of x, weight and dx */
  int64_t width, labels; /* H, L */
  int64_t documents;     /* S */
  const int32_t* rows;   /* [S], rows of x, all different; -1: no document */
  const void* x;         /* [tokens, H] */
  const void* weight;    /* [L, H] */
  float* scores;         /* [S, L] */
} coxswain_score_head_forward_args;
int coxswain_score_head_forward(const coxswain_score_head_forward_args* args, void* stream);

typedef struct {
  int32_t dtype;
  int64_t width, labels, documents;
  const int32_t* rows;
  const void* x;
  const void* weight;
  const float* dscores; /* [S, L] */
  const float* scale;   /* in device memory, of both gradients */
  void* dx;             /* the rows of documents are written, the others left */
  float* dweight;       /* [L, H]; null: not wanted */
  int32_t accumulate;   /* dweight is added to */
} coxswain_score_head_backward_args;
int coxswain_score_head_backward(const coxswain_score_head_backward_args* args, void* stream);

enum coxswain_score_term {
  COXSWAIN_SCORE_BRADLEY_TERRY = 0,
  COXSWAIN_SCORE_SINGLE_LABEL = 1,
  COXSWAIN_SCORE_MULTI_LABEL = 2,
  COXSWAIN_SCORE_REGRESSION = 3,
};

typedef struct {
  int32_t type; /* of enum coxswain_score_term */
  int64_t labels;
  double centre;
  int64_t documents;
  const int32_t* rows; /* [S]; -1: no document */
  const float* scores; /* [S, L] */
  const float* values; /* [S, L] of several labels and of numbers, else [S] */
  double* loss;        /* added to */
  double* reports;     /* [COXSWAIN_PREFERENCE_SUMS] of documents.h, added to */
  float* dscores;      /* [S, L]; null: not wanted */
} coxswain_score_loss_args;
int coxswain_score_loss(const coxswain_score_loss_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_SCORES_H_ */
