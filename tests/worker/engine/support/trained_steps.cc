#include "tests/worker/engine/support/trained_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {

std::unique_ptr<State> StartState(const plan::Plan& plan) {
  std::string doing;
  auto state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << doing << ": " << state.status();
  return state.ok() ? *std::move(state) : nullptr;
}

TrainedSteps TrainSteps(const plan::Plan& plan, int64_t steps, BinBatch (*bins_of)(int64_t step),
                        bool graphs) {
  TrainedSteps run;
  const std::unique_ptr<State> state = StartState(plan);
  if (state == nullptr) return run;
  if (!graphs) state->graphs.Disable();
  for (int64_t step = 0; step < steps; ++step) {
    const auto stats = RunTrainStep(*state, MakeStep(step, bins_of(step)));
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return run;
    EXPECT_TRUE(stats->applied);
    run.losses.push_back(stats->loss_sum);
    run.norms.push_back(stats->grad_norm);
  }
  for (size_t i = 0; i < state->plan.parameters.size(); ++i) {
    if (!state->plan.parameters[i].trainable()) continue;
    const std::vector<float> values = TrainedValues(*state, i);
    run.values.insert(run.values.end(), values.begin(), values.end());
  }
  return run;
}

}  // namespace coxswain::engine
