// Generation: one forward over the prompts fills the cache of keys and values. Then one forward per
// next token reads it. The ops are those of training; only attention differs (CacheUse).
#ifndef COXSWAIN_WORKER_ENGINE_GENERATE_GENERATE_H_
#define COXSWAIN_WORKER_ENGINE_GENERATE_GENERATE_H_

#include "absl/status/statusor.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// Every rank computes every text. All continue with the tokens that rank 0 chooses. InvalidArgument
// names a text, length or setting that is out of range, and the range.
absl::StatusOr<GenerateStats> RunGenerate(State& state, const GenerateChunk& chunk);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GENERATE_GENERATE_H_
