// Reads what was written of a job back into its engine, with the readers of models, adapters and
// checkpoints that Prepare has.
#ifndef COXSWAIN_WORKER_ENGINE_LOAD_WRITTEN_H_
#define COXSWAIN_WORKER_ENGINE_LOAD_WRITTEN_H_

#include <string>

#include "absl/status/status.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// As Engine::Load. Memory, layout and group stay. Weights of other ranks are fetched again by the
// next sweep. FailedPrecondition: the plan trains nothing, gradients wait for their update, or the
// plan keeps its base quantised and a model is to be read. InvalidArgument: not one folder is
// given.
// `*doing` names the current action.
absl::Status LoadWritten(State& state, const WrittenWeights& written, std::string* doing);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_LOAD_WRITTEN_H_
