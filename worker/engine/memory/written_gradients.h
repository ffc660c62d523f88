// Finds the gradients that products write (plan::IsWrittenByProduct). In "gradients" the first
// micro-step of a step writes them (beta 0) and later ones add. In a slot of ZeRO every micro-step
// writes them. All other bytes are cleared first: gaps, and gradients that are only added to
// (norms, biases, rows of the embedding, adapters, sums over ranks).
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_WRITTEN_GRADIENTS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_WRITTEN_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::engine {

// Elements of `flat`, trained or not, that products write; ascending, adjacent ranges joined.
std::vector<plan::Range> WrittenElements(const plan::Plan& plan, const plan::ShardMap& map,
                                         const plan::Flat& flat);

// Bytes of "gradients" that the first micro-step of a step writes, in the same way.
std::vector<plan::Range> WrittenBytes(const plan::Plan& plan, const plan::ShardMap& map);

// [0, end) without `ranges`, which must be ascending. No range of the result is empty.
std::vector<plan::Range> Beside(const std::vector<plan::Range>& ranges, int64_t end);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_WRITTEN_GRADIENTS_H_
