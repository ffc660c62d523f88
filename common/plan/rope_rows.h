// Rows of the tables of rotary embeddings. longrope divides frequencies by short factors in a
// document of at most original_max_position tokens, and by long factors in a longer one. Where a
// plan may have both, its tables have two parts: [0, LongDocumentRow) for the positions of short
// documents, and sequence_len rows behind them for those of long ones. A token's row is then
// another than its position. Source: transformers modeling_rope_utils, longrope_frequency_update,
// which takes the longest sequence of a batch: a document alone, here as in every bin.
#ifndef COXSWAIN_COMMON_PLAN_ROPE_ROWS_H_
#define COXSWAIN_COMMON_PLAN_ROPE_ROWS_H_

#include <cstdint>

#include "common/plan/longest_document.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Where position 0 of a long document is; 0: documents of the plan are all of one kind. A longer
// document than this many tokens is long.
inline int64_t LongDocumentRow(const Plan& plan) {
  for (const model::Rope& rope : plan.model.ropes()) {
    if (rope.type != "longrope" || LongestDocument(plan) <= rope.original_max_position) continue;
    return rope.original_max_position;
  }
  return 0;
}

inline int64_t RopeTableRows(const Plan& plan) { return LongDocumentRow(plan) + plan.sequence_len; }

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_ROPE_ROWS_H_
