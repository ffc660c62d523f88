/* Of kernels/c_api/c_api.h: document_loss.h and policy_loss.h. */
#ifndef COXSWAIN_KERNELS_C_API_DOCUMENTS_H_
#define COXSWAIN_KERNELS_C_API_DOCUMENTS_H_

#include "kernels/c_api/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum coxswain_document_term {
  COXSWAIN_DOCUMENT_SIGMOID = 0,
  COXSWAIN_DOCUMENT_SMOOTHED = 1,
  COXSWAIN_DOCUMENT_ROBUST = 2,
  COXSWAIN_DOCUMENT_HINGE = 3,
  COXSWAIN_DOCUMENT_IPO = 4,
  COXSWAIN_DOCUMENT_SIGMOID_MEAN = 5,
  COXSWAIN_DOCUMENT_APO_ZERO = 6,
  COXSWAIN_DOCUMENT_MARGIN = 7,
  COXSWAIN_DOCUMENT_ODDS = 8,
  COXSWAIN_DOCUMENT_NLL = 9,
  COXSWAIN_DOCUMENT_NLL_WITH_PROMPT = 10,
  COXSWAIN_DOCUMENT_KTO = 11,
  COXSWAIN_DOCUMENT_APO_ZERO_RECORD = 12,
};
enum { COXSWAIN_MOST_DOCUMENT_TERMS = 4, COXSWAIN_PREFERENCE_SUMS = 7 };

typedef struct {
  int64_t documents;
  const int32_t* rows; /* [documents, 3]: first row, first that is scored, end; -1: no document */
  const float* nll;    /* by row */
  double* sums;        /* [documents, 2]: minus the nll of scored rows, and of all */
} coxswain_sum_documents_args;
int coxswain_sum_documents(const coxswain_sum_documents_args* args, void* stream);

typedef struct {
  int32_t pairs; /* documents 2 i and 2 i + 1 are chosen and rejected; 0: each has a label */
  int32_t terms; /* 1 .. COXSWAIN_MOST_DOCUMENT_TERMS */
  int32_t type[COXSWAIN_MOST_DOCUMENT_TERMS]; /* of enum coxswain_document_term */
  double weight[COXSWAIN_MOST_DOCUMENT_TERMS];
  double beta, label_smoothing, margin, desirable_weight, undesirable_weight;
  int32_t mean_rewards; /* rewards and log-probabilities of means, else of sums */
  int64_t documents;
  const int32_t* rows;      /* [documents, 3], as of coxswain_sum_documents */
  const double* sums;       /* [documents, 2], of the policy */
  const double* references; /* [documents, 2]; null: all 0 */
  const float* labels;      /* [documents], 1 or 0; null: pairs */
  const double* scalars;    /* [2], in device memory: the ratio of the nll term, and the KL term */
  double* coefficients;     /* [documents], scratch */
  double* loss;             /* added to */
  double* reports;          /* [COXSWAIN_PREFERENCE_SUMS], added to */
  float* weights;           /* by row; null: no gradient is wanted */
} coxswain_document_loss_args;
int coxswain_document_loss(const coxswain_document_loss_args* args, void* stream);

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

#endif /* COXSWAIN_KERNELS_C_API_DOCUMENTS_H_ */
