// Tokenizers that were replaced while a job with added tokens ran.
#include "controller/export/export_tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/files/read_file.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::exports {
namespace {

class ExportTokenizerTest : public testing::Test {
 protected:
  absl::Status Write(const std::string& tokenizer) {
    base_.Write("tokenizer.json", tokenizer);
    config::JobSpec job = config::DefaultSpec();
    job.added_tokens = {"<a>"};
    plan::Plan plan;
    plan.model_path = base_.path();
    plan.model.added_tokens = {.count = 1, .known = 1, .base_rows = 1};
    return WriteTokenizer(job, plan, out_.path());
  }
  const support::ScratchFolder base_, out_;
};

TEST_F(ExportTokenizerTest, TakesAVocabularyWithoutAddedTokens) {
  const absl::Status status = Write(R"({"model": {"vocab": {"x": 0}}})");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ExportTokenizerTest, WhatIsNoTokenizerIsNamed) {
  for (const char* text :
       {"{}", R"({"model": 3})", R"({"model": {"vocab": [3]}})", R"({"model": {"vocab": 3}})",
        R"({"model": {"vocab": {"x": 0}}, "added_tokens": [{}]})",
        R"({"model": {"vocab": {"x": 0}}, "added_tokens": "y"})", "[]", "nothing"}) {
    const absl::Status status = Write(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text << ": " << status;
    EXPECT_NE(status.ToString().find("tokenizer.json"), std::string::npos) << status;
  }
}

TEST_F(ExportTokenizerTest, NamedTemplatesGoAlong) {
  std::filesystem::create_directory(base_.path() + "/additional_chat_templates");
  base_.Write("additional_chat_templates/tool_use.jinja", "{{ tools }}");
  ASSERT_TRUE(Write(R"({"model": {"vocab": {"x": 0}}})").ok());
  EXPECT_EQ(*coxswain::ReadFile(out_.path() + "/additional_chat_templates/tool_use.jinja"),
            "{{ tools }}");
}

TEST_F(ExportTokenizerTest, TheTrainedTemplateAndItsEndAreWritten) {
  base_.Write("generation_config.json", R"({"top_k": 7, "eos_token_id": 256})");
  plan::Plan plan;
  plan.model_path = base_.path();
  ASSERT_TRUE(WriteTrainedFormat({"{{ x }}", {258}}, plan, out_.path()).ok());
  EXPECT_EQ(*coxswain::ReadFile(out_.path() + "/chat_template.jinja"), "{{ x }}");
  const auto config =
      nlohmann::json::parse(*coxswain::ReadFile(out_.path() + "/generation_config.json"));
  EXPECT_EQ(config, nlohmann::json::parse(R"({"top_k": 7, "eos_token_id": [256, 258]})"));
}

// What teaches no other end leaves the file as it is.
TEST_F(ExportTokenizerTest, AnEndThatTheBaseListsChangesNothing) {
  const std::string text = R"({ "eos_token_id": [256,258]})";
  base_.Write("generation_config.json", text);
  plan::Plan plan;
  plan.model_path = base_.path();
  ASSERT_TRUE(WriteTrainedFormat({"", {258}}, plan, out_.path()).ok());
  EXPECT_EQ(*coxswain::ReadFile(out_.path() + "/generation_config.json"), text);
  EXPECT_FALSE(coxswain::ReadFile(out_.path() + "/chat_template.jinja").ok());
}

}  // namespace
}  // namespace coxswain::exports
