// How long a document of a plan can be.
#ifndef COXSWAIN_COMMON_PLAN_LONGEST_DOCUMENT_H_
#define COXSWAIN_COMMON_PLAN_LONGEST_DOCUMENT_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::plan {

// Tokens. A bin of a loss of pairs has room for two documents of this length, and so has one of a
// loss with a KL term; else a document may fill a bin.
inline int64_t LongestDocument(const Plan& plan) {
  const DocumentLoss& loss = plan.document_loss;
  const bool two = loss.documents_per_unit() == 2 || loss.has_kl();
  return two ? plan.sequence_len / 2 : plan.sequence_len;
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_LONGEST_DOCUMENT_H_
