// What optimizers with fewer bits save of a model of 7B, trained in full on one GPU.
#include <gtest/gtest.h>

#include "common/model/read/read_model_config.h"
#include "controller/planner/planner.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

constexpr double kGib = int64_t{1} << 30;

// GiB of the optimizer's class in the plan of bench/models/`name`.
double OptimizerGib(const std::string& name, const std::string& optimizer) {
  config::JobSpec job = SmallJob();
  job.adapter = config::Adapter::kNone;
  job.device = config::Device::kCuda;
  job.workers = 1;
  job.compute_dtype = Precision::kBfloat16;
  job.train.optimizer = *FromString<OptimizerKind>(optimizer);
  const auto model = model::ReadModelConfig("bench/models/" + name);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return 0;
  const data::PreparedData data = SmallData();
  const auto recipe = Recipe::Make(job, *model, data);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  if (!recipe.ok()) return 0;
  const auto planned = MakePlan("seven-1", job, *model, *recipe, {});
  EXPECT_TRUE(planned.ok()) << planned.status();
  return planned.ok() ? static_cast<double>(planned->estimate.optimizer) / kGib : 0;
}

// Of 8 bytes an element are left 2 and 8/256 of scales: 5.969 x 7,615,616,512 for Qwen2.5, whose
// 7B are more than Llama's 6,738,415,616.
TEST(OptimizerMemoryTest, EightBitStatesSave42GibOf7b) {
  const double full = OptimizerGib("7b", "adamw");
  EXPECT_NEAR(full, 56.74, 0.01);
  EXPECT_GE(full - OptimizerGib("7b", "adamw_8bit"), 42.0);
  EXPECT_GE(OptimizerGib("llama_7b", "adamw") - OptimizerGib("llama_7b", "adamw_8bit"), 37.4);
}

TEST(OptimizerMemoryTest, Bfloat16StatesSaveHalf) {
  EXPECT_NEAR(OptimizerGib("7b", "adamw_bf16"), OptimizerGib("7b", "adamw") / 2, 0.01);
}

}  // namespace
}  // namespace coxswain::planner
