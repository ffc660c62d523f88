// Generation: a forward over the prompts that fills the cache of keys and values, then a forward
// for each next token that reads it. The ops are those of training; attention alone differs
// (CacheUse).
#ifndef COXSWAIN_WORKER_ENGINE_GENERATE_H_
#define COXSWAIN_WORKER_ENGINE_GENERATE_H_

#include "absl/status/statusor.h"
#include "worker/engine/commands.h"
#include "worker/engine/state.h"

namespace coxswain::engine {

// Every rank computes every text; what rank 0 chooses counts, so that all go on alike.
// InvalidArgument names a text, length or setting that is out of range and the range.
absl::StatusOr<GenerateStats> RunGenerate(State& state, const GenerateChunk& chunk);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GENERATE_H_
