#include "controller/planner/adapter_settings.h"

#include <gtest/gtest.h>

#include <string>

#include "controller/planner/added_tokens.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::planner {
namespace {

class AdapterSettingsTest : public testing::Test {
 protected:
  absl::Status Check(const std::string& config) {
    folder_.Write("adapter_config.json", config);
    config::JobSpec job = config::DefaultSpec();
    job.adapter = config::Adapter::kLora;
    job.lora.init_from = folder_.path();
    job.lora.r = 4;
    job.lora.alpha = 64;
    return CheckAdapterSettings(job);
  }
  const support::ScratchFolder folder_;
};

TEST_F(AdapterSettingsTest, TheSameSettingsPass) {
  EXPECT_TRUE(Check(R"({"r": 4, "lora_alpha": 64, "use_dora": false, "bias": "none",
                        "rank_pattern": {}})")
                  .ok());
}

TEST_F(AdapterSettingsTest, AnotherScaleIsRefusedWithBothValues) {
  const absl::Status status = Check(R"({"r": 4, "lora_alpha": 8})");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("lora_alpha 8 and the job lora.alpha 64"), std::string::npos)
      << status;
  EXPECT_FALSE(Check(R"({"r": 4, "lora_alpha": 64, "use_rslora": true})").ok());
  EXPECT_FALSE(Check(R"({"r": 8, "lora_alpha": 64})").ok());
  EXPECT_FALSE(Check(R"({"bias": "lora_only"})").ok());
  EXPECT_FALSE(Check(R"({"alpha_pattern": {"q_proj": 2}})").ok());
  EXPECT_FALSE(Check("[]").ok());
}

TEST(VocabularyTest, ATokenWithoutARowIsRefused) {
  data::PreparedData data;
  data.vocab_size = 261;
  data.train_stats.largest_id = 259;
  model::ModelConfig model;
  model.vocab_size = 260;
  EXPECT_TRUE(GrowVocabulary(data, &model).ok());
  data.train_stats.largest_id = 260;
  const absl::Status status = GrowVocabulary(data, &model);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("holds token 260, and the embedding has 260 rows"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace coxswain::planner
