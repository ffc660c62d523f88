#include "controller/status_page/history.h"

#include <gtest/gtest.h>

#include <cmath>

namespace coxswain::status_page {
namespace {

class HistoryTest : public testing::Test {
 protected:
  void Step(int64_t step, double loss) {  // 0-based, as in the event
    v1::JobEvent event;
    event.set_type("StepDone");
    v1::StepDone& done = *event.mutable_step_done();
    done.set_step(step);
    done.set_loss(loss);
    done.set_tokens_per_second(10);
    done.set_tokens(7);
    Add(event);
  }
  void Eval(int64_t finished, double loss) {
    v1::JobEvent event;
    event.set_type("EvalDone");
    event.mutable_eval_done()->set_step(finished);
    event.mutable_eval_done()->set_eval_loss(loss);
    Add(event);
  }
  void Add(v1::JobEvent event) {
    event.set_id(++id_);
    history_.Add(event);
  }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    for (const StepPoint& point : history_.steps()) steps.push_back(point.step);
    return steps;
  }
  History history_;
  int64_t id_ = 0;
};

TEST_F(HistoryTest, KeepsStepsEvaluationsAndTheCursor) {
  Eval(0, 5);
  Step(0, 4);
  Step(1, NAN);
  EXPECT_EQ(Steps(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(history_.steps()[0].loss, 4);
  EXPECT_EQ(history_.steps()[0].tokens, 7);
  EXPECT_TRUE(std::isnan(history_.steps()[1].loss));
  ASSERT_EQ(history_.evals().size(), 1u);
  EXPECT_EQ(history_.cursor(), 3);
  EXPECT_EQ(history_.newest_events().size(), 1u);  // no single steps
}

TEST_F(HistoryTest, AReplayTakesBackWhatItTrainsAgain) {
  for (int64_t step = 0; step < 10; ++step) Step(step, 1);
  Eval(5, 0.5);
  Eval(10, 0.4);
  Step(5, 2);  // from the checkpoint of step 5
  EXPECT_EQ(Steps(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(history_.steps().back().loss, 2);
  EXPECT_EQ(history_.newest_steps().size(), 6u);
  ASSERT_EQ(history_.evals().size(), 1u);
  EXPECT_EQ(history_.evals()[0].step, 5);
}

TEST_F(HistoryTest, IsBoundedAndSpansTheRun) {
  for (int64_t step = 0; step < 100'000; ++step) Step(step, 1);
  const std::vector<int64_t> steps = Steps();
  EXPECT_LE(steps.size(), History::kCurvePoints + 1);
  EXPECT_GE(steps.size(), History::kCurvePoints / 2);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 100'000);
  EXPECT_EQ(steps[2] - steps[1], history_.stride());
  EXPECT_EQ(history_.newest_steps().size(), History::kNewestSteps);
  v1::JobEvent warning;
  warning.set_type("Warning");
  for (int i = 0; i < 100; ++i) Add(warning);
  EXPECT_EQ(history_.newest_events().size(), History::kNewestEvents);
}

TEST_F(HistoryTest, AStepWithoutNumbersIsPassedOver) {
  v1::JobEvent event;
  event.set_type("StepDone");
  Add(event);
  EXPECT_TRUE(history_.steps().empty());
  EXPECT_EQ(history_.cursor(), 1);
}

}  // namespace
}  // namespace coxswain::status_page
