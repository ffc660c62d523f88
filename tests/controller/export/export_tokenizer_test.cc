// Tokenizers that were replaced while a job with added tokens ran.
#include "controller/export/export_tokenizer.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace coxswain::exports
