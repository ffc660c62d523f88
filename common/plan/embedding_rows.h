// How the gradient of a trained token embedding is summed over the ranks in the last micro-step.
// It comes last of all in backward, so that nothing is left to hide its reduction behind, and it is
// the largest tensor of a small model. But what comes last is few rows: one a token of the
// micro-step. So where that is less, the matrix is reduced early, with all that was added to it
// before (earlier micro-steps, a tied head), and at the end the ranks exchange the rows of that
// micro-step; each adds those that fall into the range it owns, rank by rank, token by token.
#ifndef COXSWAIN_COMMON_PLAN_EMBEDDING_ROWS_H_
#define COXSWAIN_COMMON_PLAN_EMBEDDING_ROWS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::plan {

// The same on all ranks. True when a rank receives at most half as many bytes of rows as of the
// matrix, and the rows of all ranks fit into the buffer of logits, which they share.
bool ExchangesEmbeddingRows(const Plan& plan);

// Tokens whose rows are exchanged: the capacity of a micro-step, of every rank.
int64_t EmbeddingRowTokens(const Plan& plan);

// Counts the bytes of rows and ids that a rank receives.
int64_t EmbeddingRowBytesReceived(const Plan& plan);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_EMBEDDING_ROWS_H_
