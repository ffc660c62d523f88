// Measures the speed of collectives between the ranks.
#ifndef COXSWAIN_WORKER_ENGINE_LINK_SPEED_H_
#define COXSWAIN_WORKER_ENGINE_LINK_SPEED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {

// See Engine::MeasureLinks.
absl::StatusOr<std::vector<plan::LinkSpeed>> MeasureLinks(State& state);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_LINK_SPEED_H_
