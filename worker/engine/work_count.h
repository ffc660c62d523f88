// How much this process has done of loads and steps, and of saves beside them, so that who waits
// can tell slow from stuck.
#ifndef COXSWAIN_WORKER_ENGINE_WORK_COUNT_H_
#define COXSWAIN_WORKER_ENGINE_WORK_COUNT_H_

#include <cstdint>

namespace coxswain::engine {

// Any thread: one more piece is done, e.g. a part of a tensor is read, a sweep over a micro-batch
// launched.
void CountWork();
// Any thread: one more block of a shard is written.
void CountSaved();

// Since the process began.
uint64_t WorkDone();
uint64_t BlocksSaved();

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_WORK_COUNT_H_
