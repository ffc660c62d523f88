// Extents that planner and engine derive alike from a plan, and what a process takes beside every
// buffer.
#ifndef COXSWAIN_COMMON_PLAN_EXTENTS_H_
#define COXSWAIN_COMMON_PLAN_EXTENTS_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain {

// a / b rounded up, for a >= 0 and b > 0.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace coxswain

namespace coxswain::plan {

// Where the rows of a chunk of logits lie. The planner sizes the buffer by it, the engine's
// products and losses walk it.

// Elements between rows of `vocab` logits of `element_bytes` each, 2 or 4: rows start at multiples
// of 16 bytes, which vector loads and the fast algorithms of a product need.
constexpr int64_t LogitsStride(int64_t vocab, int64_t element_bytes) {
  const int64_t vector = 16 / element_bytes;
  return (vocab + vector - 1) / vector * vector;
}

// How long a document of a plan can be.

// Tokens. A bin of a loss of pairs has room for two documents of this length, and so has one of a
// loss with a KL term; else a document may fill a bin.
inline int64_t LongestDocument(const Plan& plan) {
  const DocumentLoss& loss = plan.document_loss;
  const bool two = loss.documents_per_unit() == 2 || loss.has_kl();
  return two ? plan.sequence_len / 2 : plan.sequence_len;
}

// Rows of the tables of rotary embeddings. longrope divides frequencies by short factors in a
// document of at most original_max_position tokens, and by long factors in a longer one. Where a
// plan may have both, its tables have two parts: [0, LongDocumentRow) for the positions of short
// documents, and sequence_len rows behind them for those of long ones. A token's row is then
// another than its position. Source: transformers modeling_rope_utils, longrope_frequency_update,
// which takes the longest sequence of a batch: a document alone, here as in every bin.

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

// What a process takes of a GPU beside every buffer.

// CUDA's context, the modules of kernels and the handles of libraries, in bytes of the device.
// Source: one H200, driver 580.159, CUDA 13: a context alone takes 0.514 GiB; measured peaks of
// sixteen rows of bench/results/h200_step.json and h200_qlora.json, 7 to 104 GiB, lie 0.523 to
// 0.585 GiB above the sum of their buffers, half of them above 0.541.
inline constexpr uint64_t kCudaRuntimeBytes = (uint64_t{54} << 30) / 100;

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_EXTENTS_H_
