// Two engines that should train alike, step by step.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SAME_LOSSES_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SAME_LOSSES_H_

#include <gtest/gtest.h>

#include "tests/worker/engine/support/golden_case.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {

// Five steps of the golden case's batch by `plan` and by that of the case, with weight decay 0.01:
// the bits of the losses are equal.
inline void ExpectLossesOf(GoldenCase golden, const plan::Plan& plan) {
  for (plan::ParameterGroup& group : golden.plan.groups) group.weight_decay = 0.01;
  auto one = Engine::Prepare(plan, 0, ""), other = Engine::Prepare(golden.plan, 0, "");
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  for (int64_t step = 0; step < 5; ++step) {
    TrainStep train;
    train.step = step;
    train.bins = golden.bins;
    train.loss_denominator = golden.targets;
    train.learning_rate = 1e-3;
    const auto first = (*one)->Train(train), second = (*other)->Train(train);
    ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
    EXPECT_EQ(first->global_loss_sum, second->global_loss_sum) << step;
  }
}

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_SAME_LOSSES_H_
