// Builds the state of an engine: memory, weights, adapter, checkpoint and first launches.
#ifndef COXSWAIN_WORKER_ENGINE_MAKE_STATE_H_
#define COXSWAIN_WORKER_ENGINE_MAKE_STATE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {

// Allocates, loads and checks; see Engine::Prepare. Exceptions of kernels pass through; `*doing`
// then names the current action.
absl::StatusOr<std::unique_ptr<State>> MakeState(const plan::Plan& plan, int rank,
                                                 const std::string& checkpoint_dir,
                                                 std::string* doing,
                                                 const std::string& checkpoint_recipe = {});

// Base weights of plan.model_path, the corrections of routers and the adapter, of
// plan.lora.init_from or a new one, into memory that was laid out for state.plan. `plan` has its
// tensors. Errors as LoadBaseWeights and LoadAdapter.
absl::Status LoadParameters(State& state, const plan::Plan& plan, const Change& change,
                            std::string* doing);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MAKE_STATE_H_
