// Counts the work of this process on loads and steps, and on saves, so that a waiting caller can
// tell slow from stuck.
#ifndef COXSWAIN_WORKER_ENGINE_COMMANDS_WORK_COUNT_H_
#define COXSWAIN_WORKER_ENGINE_COMMANDS_WORK_COUNT_H_

#include <cstdint>

namespace coxswain::engine {

// Any thread: one more piece is done, e.g. a part of a tensor was read, or a sweep over a
// micro-batch launched.
void CountWork();
// Any thread: one more block of a shard was written.
void CountSaved();

// Counts since the process began.
uint64_t WorkDone();
uint64_t BlocksSaved();

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_COMMANDS_WORK_COUNT_H_
