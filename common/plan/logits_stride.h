// Where the rows of a chunk of logits lie. The planner sizes the buffer by it, the engine's
// products and losses walk it.
#ifndef COXSWAIN_COMMON_PLAN_LOGITS_STRIDE_H_
#define COXSWAIN_COMMON_PLAN_LOGITS_STRIDE_H_

#include <cstdint>

namespace coxswain::plan {

// Elements between rows of `vocab` logits of `element_bytes` each, 2 or 4: rows start at multiples
// of 16 bytes, which vector loads and the fast algorithms of a product need.
constexpr int64_t LogitsStride(int64_t vocab, int64_t element_bytes) {
  const int64_t vector = 16 / element_bytes;
  return (vocab + vector - 1) / vector * vector;
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_LOGITS_STRIDE_H_
