// The history of delayed scaling (common/plan/fp8_history.h, kernels/quantize/fp8_history.h): whole
// on every rank. Sweeps read what it expects, those of training record what they observe; the
// update moves it. Without one each of these does nothing.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_FP8_HISTORY_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_FP8_HISTORY_H_

#include "common/plan/plan.h"
#include "kernels/device.h"
#include "worker/engine/memory/buffers.h"

namespace coxswain::engine {

// Before the decision, of what ranks have gathered: an amax that is not finite skips the update.
void JudgeObserved(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream);

// After it. A skipped update leaves the history; what was observed is forgotten either way.
void MoveFp8History(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream);

// Begins what is expected from a history that was read. Blocks.
void ReadFp8History(const plan::Plan& plan, const Buffers& buffers);

// As before the first update. Blocks.
void ClearFp8History(const plan::Plan& plan, const Buffers& buffers);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_FP8_HISTORY_H_
