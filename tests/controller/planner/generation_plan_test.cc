#include "controller/planner/generation_plan.h"

#include <algorithm>

#include "common/plan/checks/plan_bytes.h"
#include "common/plan/extents.h"
#include "controller/planner/memory/memory.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class GenerationPlanTest : public testing::Test {
 protected:
  GenerationPlanTest() {
    job_.method = "generate";
    job_.workers = 1;
    job_.generate.max_new_tokens = 20;
  }
  absl::StatusOr<PlannedJob> Plan(const WorkerResources& resources = {}) const {
    return MakeGenerationPlan("g-1", job_, model_, {.texts = 3, .longest = 11}, resources);
  }

  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
};

int64_t BytesOf(const plan::Plan& plan, const std::string& name) {
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.name == name) return buffer.bytes;
  }
  return 0;
}

TEST_F(GenerationPlanTest, TrainsNothingAndCountsTheCache) {
  const auto planned = Plan();
  ASSERT_TRUE(planned.ok()) << planned.status();
  const plan::Plan& plan = planned->plan;
  EXPECT_FALSE(plan.trains());
  EXPECT_EQ(plan.generation, (plan::Generation{.sequences = 3, .length = 31}));
  EXPECT_EQ(plan.sequence_len, 31);
  EXPECT_TRUE(std::none_of(plan.parameters.begin(), plan.parameters.end(),
                           [](const auto& parameter) { return parameter.trainable(); }));
  const int64_t cache = 4 * 3 * 31 * model_.num_layers * model_.num_kv_heads * model_.head_dim;
  EXPECT_EQ(BytesOf(plan, "cache.keys"), cache);
  EXPECT_EQ(BytesOf(plan, "cache.values"), cache);
  const MemoryByClass memory = PlannedMemory(plan);
  EXPECT_EQ(memory.gradients + memory.optimizer + memory.host, 0u);
  EXPECT_EQ(planned->estimate.total_bytes, memory.total());
}

TEST_F(GenerationPlanTest, AnAdapterIsThereAndFrozen) {
  job_.adapter = config::Adapter::kLora;
  job_.lora.init_from = "/adapter";
  const auto planned = Plan();
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plan.lora.init_from, "/adapter");
  EXPECT_GT(BytesOf(planned->plan, "layer0.lora_h"), 0);
  EXPECT_FALSE(planned->plan.trains());
}

TEST_F(GenerationPlanTest, AnAnswerEndsAtTheLengthOfASequence) {
  job_.sequence_len = 15;
  EXPECT_EQ(GenerationOf(job_, {.texts = 1, .longest = 11})->length, 15);
  job_.sequence_len = 11;
  const absl::Status status = GenerationOf(job_, {.texts = 1, .longest = 11}).status();
  EXPECT_NE(status.ToString().find("a prompt has 11 tokens and sequence_len is 11"),
            std::string::npos)
      << status;
  EXPECT_EQ(*GenerationOf(job_, {}), plan::Generation{});
}

TEST_F(GenerationPlanTest, DequantisesAsManyExpertsAsFit) {
  model_ = SmallExperts();
  job_.quantization = "mxfp4";
  const auto all = Plan();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->plan.experts_at_once, 0);
  const auto fewer = Plan({.memory_bytes = all->estimate.total_bytes - 1});
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->plan.experts_at_once, 6);
  EXPECT_EQ(plan::ParsePlan(fewer->bytes)->experts_at_once, 6);
  const auto fewest = Plan({.memory_bytes = fewer->estimate.total_bytes - 1});
  ASSERT_TRUE(fewest.ok()) << fewest.status();
  EXPECT_EQ(fewest->plan.experts_at_once, 3);
}

TEST_F(GenerationPlanTest, RefusesWhatDoesNotFitAndSeveralWorkers) {
  const absl::Status status = Plan({.memory_bytes = 1000}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(status.ToString().find("the cache of 3 x 31 tokens"), std::string::npos) << status;
  job_.workers = 2;
  EXPECT_TRUE(absl::IsInvalidArgument(Plan().status()));
}

TEST_F(GenerationPlanTest, CountsWhatCudaTakes) {
  job_.device = config::Device::kCuda;
  model_.head_dim = 8;
  const auto planned = Plan();
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->estimate.runtime, plan::kCudaRuntimeBytes);
  const uint64_t need = planned->estimate.total_bytes;
  EXPECT_TRUE(Plan({.memory_bytes = need}).ok());
  const absl::Status status = Plan({.memory_bytes = need - 1}).status();
  EXPECT_NE(status.ToString().find("CUDA's runtime 553.0 MiB"), std::string::npos) << status;
}

// Sample prompts of a training job: what is trained stays, the cache is counted beside it.
TEST_F(GenerationPlanTest, ATrainingPlanCountsTheCacheOfItsSamples) {
  job_ = SmallJob();
  const data::PreparedData data = SmallData(101, 20);
  const auto recipe = Recipe::Make(job_, model_, data);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const auto without = MakePlan("t-1", job_, model_, *recipe, {});
  const auto with = MakePlan("t-1", job_, model_, *recipe, {}, {.sequences = 2, .length = 32});
  ASSERT_TRUE(without.ok() && with.ok()) << with.status();
  EXPECT_EQ(BytesOf(without->plan, "cache.keys"), 0);
  EXPECT_GT(with->estimate.total_bytes, without->estimate.total_bytes);
  EXPECT_EQ(with->plan.groups, without->plan.groups);
  EXPECT_NE(with->hash, without->hash);
}

}  // namespace
}  // namespace coxswain::planner
