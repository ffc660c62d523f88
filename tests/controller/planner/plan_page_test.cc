#include <nlohmann/json.hpp>

#include "common/hash.h"
#include "controller/planner/planner.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class PlanPageTest : public testing::Test {
 protected:
  void Make() {
    auto recipe = Recipe::Make(job_, model_, data_);
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    recipe_ = std::move(*recipe);
    auto planned = MakePlan("small-1", job_, model_, recipe_, {});
    ASSERT_TRUE(planned.ok()) << planned.status();
    planned_ = std::move(*planned);
  }

  bool Advised(const std::string& part) {
    Make();
    for (const std::string& line : planned_.advice) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

  data::PreparedData data_ = SmallData(101, 20);
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
  Recipe recipe_;
  PlannedJob planned_;
};

TEST_F(PlanPageTest, PageShowsWhatAUserDecidesBy) {
  data_.warnings = {"something odd"};
  Make();
  const std::string page = FormatPlan(job_, recipe_, planned_, data_);
  for (const std::string& part :
       {std::string("Qwen2ForCausalLM"), std::string("trainable"), std::string("lora_a"),
        std::string("lora_b"), std::string("learning rate 0.0016"), std::string("101 documents"),
        std::string("slots filled"), std::string("Global batch"),
        std::string("replicate 2 x shard 1"), std::string("recompute none"),
        std::string("  activations"), std::string("FLOP per token"), std::string("tokens/s"),
        std::string("assuming 60 GFLOP/s per worker thread, 1 thread each"),
        std::string("(1 pass, "), std::string("Warning        something odd"),
        ToHex(planned_.hash).substr(0, 16)}) {
    EXPECT_NE(page.find(part), std::string::npos) << part << " in:\n" << page;
  }
}

TEST_F(PlanPageTest, JsonHasStableKeysAndTheSameNumbers) {
  Make();
  const auto json = nlohmann::json::parse(PlanJson(job_, recipe_, planned_, data_));
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key + " ";
  EXPECT_EQ(keys,
            "advice data flops_per_token groups job layout memory_bytes_per_rank model name "
            "plan_hash predicted recipe_hash schedule warnings ");
  EXPECT_EQ(json["plan_hash"], ToHex(planned_.hash));
  EXPECT_EQ(json["recipe_hash"], ToHex(recipe_.hash()));
  EXPECT_EQ(json["schedule"]["total_steps"], recipe_.total_steps());
  EXPECT_EQ(json["schedule"]["train_tokens"], recipe_.train_tokens());
  EXPECT_EQ(json["memory_bytes_per_rank"]["total"], planned_.estimate.total_bytes);
  EXPECT_EQ(json["model"]["trainable_parameters"], planned_.estimate.trainable_parameters);
  EXPECT_EQ(json["groups"][1]["name"], "lora_b");
  EXPECT_EQ(json["layout"]["micro_batch_bins"], planned_.plan.micro_batch_bins);
  EXPECT_EQ(json["data"]["eval_bins"], recipe_.eval_bins().size());
}

TEST_F(PlanPageTest, SmallModelsAndUsualSettingsGetNoAdvice) {
  Make();
  EXPECT_TRUE(planned_.advice.empty()) << planned_.advice[0];
}

// Half a billion parameters by a wide vocabulary: cheap to plan.
TEST_F(PlanPageTest, AdvisesByModelSize) {
  model_.vocab_size = 500'000'000 / 16;
  job_.lora.r = 256;
  EXPECT_TRUE(Advised("lora.r is 256, recommended for a model of 0.5B: 32"));
  job_.lora.r = 64;
  EXPECT_FALSE(Advised("lora.r"));
  job_.train.learning_rate = 1e-2;
  EXPECT_TRUE(Advised("train.learning_rate is 0.01, recommended for LoRA on a model of 0.5B"));
  job_.adapter = config::Adapter::kNone;
  EXPECT_TRUE(Advised("recommended for full fine-tuning: 2e-05"));
  job_.train.micro_batch_size = 128;
  EXPECT_TRUE(Advised("train.micro_batch_size is 128"));
  model_.vocab_size *= 14;
  job_.recompute = config::Recompute::kNone;
  EXPECT_TRUE(Advised("recompute is none, recommended for a model of 7B: block"));
}

TEST_F(PlanPageTest, AdvisesOnScheduleAndBatch) {
  job_.train.warmup_steps = 1000;
  EXPECT_TRUE(Advised("warm-up takes 1000 steps"));
  job_.train.global_batch_size = 5;
  EXPECT_TRUE(Advised("does not divide by 2 workers"));
  job_.train.global_batch_size = 1000;
  EXPECT_TRUE(Advised("a step is a whole pass"));
  job_.packing.strategy = config::PackingStrategy::kNone;
  EXPECT_TRUE(Advised("bins are filled to"));
}

}  // namespace
}  // namespace coxswain::planner
