// What some steps of training leave, compared bit by bit between ways to run them.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TRAINED_STEPS_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TRAINED_STEPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/plan/plan.h"
#include "tests/worker/engine/support/test_batch.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {

// Of rank 0 of a run that starts; null, with a failure of the test, where it cannot be made.
std::unique_ptr<State> StartState(const plan::Plan& plan);

struct TrainedSteps {
  std::vector<double> losses, norms;  // of each step
  std::vector<float> values;          // of all trained tensors in the end
  bool operator==(const TrainedSteps&) const = default;
};

// Step i trains on bins_of(i). Fails the test where a step fails or is not applied.
TrainedSteps TrainSteps(const plan::Plan& plan, int64_t steps, BinBatch (*bins_of)(int64_t step),
                        bool graphs = true);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_TRAINED_STEPS_H_
