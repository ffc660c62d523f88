// Where the gradients lie that products write (plan::IsWrittenByProduct): in "gradients" the first
// micro-step of a step writes them (beta 0) and the next add, in a slot of ZeRO every one writes.
// What is beside them is added to from the start (norms, biases, rows of the embedding, adapters,
// sums over ranks), or is a gap, and is cleared.
#ifndef COXSWAIN_WORKER_ENGINE_WRITTEN_GRADIENTS_H_
#define COXSWAIN_WORKER_ENGINE_WRITTEN_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::engine {

// Elements of `flat`, trained or not, that products write: ascending, joined where they touch.
std::vector<plan::Range> WrittenElements(const plan::Plan& plan, const plan::ShardMap& map,
                                         const plan::Flat& flat);

// Bytes of "gradients" that the first micro-step of a step writes, in the same way.
std::vector<plan::Range> WrittenBytes(const plan::Plan& plan, const plan::ShardMap& map);

// [0, end) without `ranges`, which are ascending: none of the result is empty.
std::vector<plan::Range> Beside(const std::vector<plan::Range>& ranges, int64_t end);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_WRITTEN_GRADIENTS_H_
