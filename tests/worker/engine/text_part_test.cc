// The text part of a model that reads images trains as the text model by itself.
#include <gtest/gtest.h>

#include "tests/support/image_text_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/golden_case.h"
#include "tests/worker/engine/test_plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace {

TEST(TextPartTest, TrainsAsTheTextModelByItself) {
  const GoldenCase golden = LoadGoldenCase("gemma3_text_full");
  const support::ScratchFolder folder;
  support::WriteImageTextModel(folder.path());
  PlanOptions options;
  options.model_path = folder.path();
  const plan::Plan part = MakePlan(options);
  plan::Plan whole = golden.plan;
  whole.groups[0].weight_decay = whole.groups[1].weight_decay = 0.01;
  auto one = Engine::Prepare(part, 0, ""), other = Engine::Prepare(whole, 0, "");
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

}  // namespace
}  // namespace coxswain::engine
