#include "controller/planner/usual_settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/planner/planner.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

std::vector<std::string> Keys(const config::JobSpec& job) {
  std::vector<std::string> keys;
  for (const UnusualSetting& setting : UnusualSettings(job)) keys.push_back(setting.key);
  return keys;
}

std::string TextOf(const config::JobSpec& job, const std::string& key) {
  for (const UnusualSetting& setting : UnusualSettings(job)) {
    if (setting.key == key) return setting.Text();
  }
  return "";
}

// What a job that says nothing of it does otherwise than other tools.
TEST(UsualSettingsTest, NamesTheDefaultsThatAreNotTheFields) {
  config::JobSpec job = config::DefaultSpec();
  EXPECT_EQ(Keys(job), (std::vector<std::string>{"train.weight_decay", "train.decay_norm_and_bias",
                                                 "packing.strategy"}));
  job.adapter = config::Adapter::kLora;
  EXPECT_EQ(Keys(job), (std::vector<std::string>{"lora.r", "lora.loraplus_lr_ratio",
                                                 "train.weight_decay", "packing.strategy"}));
  EXPECT_EQ(
      TextOf(job, "lora.loraplus_lr_ratio"),
      "lora.loraplus_lr_ratio is 16: learning rate of B x 16 (LoRA+); usual 1 (peft, Axolotl, "
      "LLaMA-Factory)");
  EXPECT_EQ(TextOf(job, "lora.r"),
            "lora.r is 32: adapters of rank 32; usual 8 (peft, LLaMA-Factory)");
  EXPECT_EQ(TextOf(job, "train.weight_decay"),
            "train.weight_decay is 0.01: every update shrinks weights by learning rate x 0.01; "
            "usual 0 (transformers, Axolotl, "
            "LLaMA-Factory)");
}

TEST(UsualSettingsTest, AJobLikeTheOthersNamesNone) {
  config::JobSpec job = config::DefaultSpec();
  job.train.weight_decay = 0;
  job.packing.strategy = config::PackingStrategy::kNone;
  EXPECT_EQ(Keys(job), std::vector<std::string>());
  job.adapter = config::Adapter::kLora;
  job.lora.r = 8;
  job.lora.loraplus_lr_ratio = 1;
  for (const double alpha : {8, 16}) {
    job.lora.alpha = alpha;
    EXPECT_EQ(Keys(job), std::vector<std::string>());
  }
  job.method = "pretrain";
  job.packing.strategy = config::PackingStrategy::kBestFit;
  EXPECT_EQ(Keys(job), std::vector<std::string>());
}

TEST(UsualSettingsTest, NamesWhatTheJobSets) {
  config::JobSpec job = config::DefaultSpec();
  job.adapter = config::Adapter::kLora;
  job.lora.alpha = 128;
  job.lora.dropout = 0.1;
  job.lora.use_rslora = job.lora.use_dora = true;
  job.train.beta2 = 0.95;
  job.train.eps = 1e-6;
  job.train.max_grad_norm = 0.5;
  job.train.min_lr_ratio = job.train.label_smoothing = 0.1;
  job.train.z_loss = 1e-4;
  EXPECT_EQ(Keys(job).size(), 15u - 1);  // adapters have no norms to decay
  EXPECT_EQ(TextOf(job, "lora.alpha / lora.r"),
            "lora.alpha / lora.r is 4: adapters are added 4 times; usual 1 to 2 (peft, "
            "LLaMA-Factory)");
  EXPECT_NE(TextOf(job, "train.betas").find("is 0.9, 0.95: "), std::string::npos);
  EXPECT_NE(TextOf(job, "train.eps").find("usual 1e-08"), std::string::npos);
}

TEST(UsualSettingsTest, AreOnThePlanPageAndInItsJson) {
  const config::JobSpec job = SmallJob();
  const data::PreparedData data = SmallData();
  const auto recipe = Recipe::Make(job, SmallModel(), data);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  const auto planned = MakePlan("small-1", job, SmallModel(), *recipe, {});
  ASSERT_TRUE(planned.ok()) << planned.status();
  const std::string page = FormatPlan(job, *recipe, *planned, data);
  EXPECT_NE(page.find("\nUnusual        lora.loraplus_lr_ratio is 16: learning rate of B x 16"),
            std::string::npos)
      << page;
  const auto json = nlohmann::json::parse(PlanJson(job, *recipe, *planned, data));
  ASSERT_EQ(json["unusual"].size(), 4u);
  EXPECT_EQ(json["unusual"][1]["key"], "lora.loraplus_lr_ratio");
  EXPECT_EQ(json["unusual"][1]["value"], "16");
  EXPECT_EQ(json["unusual"][1]["usual"], "1");
  EXPECT_EQ(json["unusual"][1]["tools"], "peft, Axolotl, LLaMA-Factory");
  EXPECT_EQ(json["unusual"][1]["meaning"], "learning rate of B x 16 (LoRA+)");
}

}  // namespace
}  // namespace coxswain::planner
