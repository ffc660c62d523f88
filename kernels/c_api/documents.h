/* Of kernels/c_api/c_api.h: document_loss.h. */
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

#ifdef __cplusplus
}
#endif

#endif /* COXSWAIN_KERNELS_C_API_DOCUMENTS_H_ */
