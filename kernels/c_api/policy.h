/* Of kernels/c_api/c_api.h: policy_loss.h. */
#ifndef COXSWAIN_KERNELS_C_API_POLICY_H_
#define COXSWAIN_KERNELS_C_API_POLICY_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum coxswain_policy_objective {
  COXSWAIN_POLICY_IMPORTANCE = 0,
  COXSWAIN_POLICY_CLIP = 1,
  COXSWAIN_POLICY_CISPO = 2,
};
enum coxswain_policy_normaliser {
  COXSWAIN_POLICY_TOKENS = 0,
  COXSWAIN_POLICY_SEQUENCES = 1,
  COXSWAIN_POLICY_CONSTANT = 2,
};
enum { COXSWAIN_POLICY_SUMS = 8, COXSWAIN_POLICY_PARTS = 6 };

typedef struct {
  int32_t objective;      /* of enum coxswain_policy_objective */
  int32_t normaliser;     /* of enum coxswain_policy_normaliser */
  int32_t sequence_ratio; /* the ratio is of documents, else of rows */
  double epsilon_low, epsilon_high;
  double delta;     /* 0: none */
  double kl_weight; /* 0: no KL term */
  int64_t documents;
  const int32_t* rows; /* [documents, 3]: first row, first that is scored, end; -1: no document */
  const float* nll;    /* by row, as the three below */
  const float* old_logps;
  const float* advantages;
  const float* references; /* null: no KL term */
  double* parts;           /* [documents, COXSWAIN_POLICY_PARTS], scratch */
  double* loss;            /* added to */
  double* reports;         /* [COXSWAIN_POLICY_SUMS], added to; the last two rise */
  float* weights;          /* by row; null: no gradient is wanted */
} coxswain_policy_loss_args;
int coxswain_policy_loss(const coxswain_policy_loss_args* args, void* stream);

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_POLICY_H_ */
