#include "common/model/read/score_config.h"

#include <fstream>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"
#include "common/model/saved_modules.h"
#include "gtest/gtest.h"
#include "tests/support/half_billion.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::model {
namespace score_config_test {
namespace {

ScoreConfig Read(const std::string& text) {
  const support::ScratchFolder folder;
  std::ofstream(folder.path() + "/config.json") << text;
  return ReadScoreConfig(folder.path()).value();
}

TEST(ScoreConfigTest, LabelsAreThoseOfAClassifierAlone) {
  EXPECT_EQ(Read(R"({"architectures": ["LlamaForCausalLM"], "id2label": {"0": "a"}})").labels, 0);
  const std::string scores = R"({"architectures": ["LlamaForSequenceClassification"])";
  EXPECT_EQ(Read(scores + "}").labels, 2) << "as transformers";
  EXPECT_EQ(Read(scores + R"(, "id2label": {"0": "a", "1": "b", "2": "c"}})").labels, 3);
  EXPECT_EQ(Read(scores + R"(, "num_labels": 1})").labels, 1);
}

TEST(ScoreConfigTest, PaddingIsItsTokenElseTheEnd) {
  EXPECT_EQ(Read(R"({"pad_token_id": 0, "eos_token_id": 5})").pad_token, 0);
  EXPECT_EQ(Read(R"({"pad_token_id": null, "eos_token_id": [5, 6]})").pad_token, 5);
  EXPECT_EQ(Read(R"({"pad_token_id": null})").pad_token, std::nullopt);
}

// The head of a tied model is no longer its embedding.
TEST(ScoreConfigTest, TheHeadOfScoresStandsInThePlaceOfTheOther) {
  ModelConfig config = support::HalfBillion();
  config.labels = 3;
  config.tie_embeddings = false;
  const Outside outside = OutsideOf(config);
  EXPECT_EQ(outside.head.name, "score.weight");
  EXPECT_EQ(outside.head.rows, 3);
  EXPECT_FALSE(outside.tied);
  EXPECT_TRUE(IsOtherHead(config, "lm_head.weight"));
  EXPECT_FALSE(IsOtherHead(support::HalfBillion(), "lm_head.weight"));
  const std::vector<Parameter> table = BaseParameterTable(config);
  const auto saved = SavedModules(table, config, {"classifier", "score"});
  ASSERT_TRUE(saved.ok()) << saved.status();
  for (size_t i = 0; i < table.size(); ++i) EXPECT_EQ((*saved)[i], IsHead(table[i]));
}

// A config.json of a classifier is read as one of its family.
TEST(ScoreConfigTest, AClassifierIsOfItsFamily) {
  const support::ScratchFolder folder;
  std::ifstream from("deploy/quickstart/model/config.json");
  std::string text((std::istreambuf_iterator<char>(from)), std::istreambuf_iterator<char>());
  const std::string causal = "Qwen2ForCausalLM";
  text.replace(text.find(causal), causal.size(), "Qwen2ForSequenceClassification");
  std::ofstream(folder.path() + "/config.json") << text;
  const auto config = ReadModelConfig(folder.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, causal);
}

}  // namespace
}  // namespace score_config_test
}  // namespace coxswain::model
