// What `cox data inspect` and `cox template show` tell.
#include "controller/data/look/inspect.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "controller/data/documents/template_sample.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

class InspectTest : public testing::Test {
 protected:
  InspectTest() {
    WriteByteTokenizer(scratch_.path());
    dataset_.path = scratch_.Write(
        "d.jsonl",
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", "
        "\"value\": \"a\"}]}\n"
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}], \"id\": 3}\n"
        "{\"conversations\": 1}\n");
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  config::DatasetSpec dataset_ = config::DefaultDataset();
};

TEST_F(InspectTest, TellsFormatFieldsAndBadRecordsWithoutAModel) {
  const auto report = InspectDataset(job_, dataset_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format, config::DatasetFormat::kSharegpt);
  EXPECT_EQ(report->records, 3);
  EXPECT_EQ(report->bad_records, 1);
  ASSERT_EQ(report->first_errors.size(), 1u);
  EXPECT_NE(report->first_errors[0].find("d.jsonl:3: field \"conversations\" is a number"),
            std::string::npos)
      << report->first_errors[0];
  ASSERT_EQ(report->fields.size(), 2u);
  EXPECT_EQ(report->fields[0].types.at("array"), 2);
  EXPECT_EQ(report->fields[1].name, "id");
  EXPECT_EQ(report->tokens.documents, 0);
  const std::string text = InspectText(*report);
  EXPECT_EQ(text.find("format sharegpt, 3 records, 1 of them bad\n"), 0u) << text;
}

TEST_F(InspectTest, CountsTokensTargetsAndWhatWouldBeDropped) {
  job_.model_path = scratch_.path();
  job_.sequence_len = 20;
  const auto report = InspectDataset(job_, dataset_);
  ASSERT_TRUE(report.ok()) << report.status();
  const TokenReport& tokens = report->tokens;
  EXPECT_EQ(tokens.documents, 2);
  EXPECT_EQ(tokens.longest, 23);  // one turn is 9 tokens, an answer 14
  EXPECT_EQ(tokens.tokens, 23 + 9);
  EXPECT_EQ(tokens.targets, 2);
  EXPECT_EQ(tokens.no_target, 1);
  EXPECT_EQ(tokens.above_sequence_len, 1);
  EXPECT_EQ(tokens.lengths, (std::map<int64_t, int64_t>{{16, 1}, {32, 1}}));
  const auto json = nlohmann::json::parse(InspectJson(*report));
  EXPECT_EQ(json["targets"], 2);
  EXPECT_EQ(json["lengths"][0]["up_to"], 16);
}

TEST_F(InspectTest, ARecordOfNoFormatSaysWhatToSet) {
  dataset_.path = scratch_.Write("n.jsonl", "{\"question\": \"q\"}\n");
  const auto report = InspectDataset(job_, dataset_);
  EXPECT_NE(report.status().message().find("n.jsonl:1: its fields (question)"), std::string::npos);
}

TEST_F(InspectTest, ABadFirstRecordIsCounted) {
  dataset_.path = scratch_.Write("b.jsonl", "{\"text\": \"a\"\n{\"text\": \"b\"}\n");
  const auto report = InspectDataset(job_, dataset_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->format, config::DatasetFormat::kCompletion);
  EXPECT_EQ(report->records, 2);
  EXPECT_EQ(report->bad_records, 1);
}

TEST_F(InspectTest, ASampleShowsTheTemplateAndItsTargets) {
  job_.model_path = scratch_.path();
  const auto sample = TemplateSample(job_, /*color=*/false);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_NE(sample->find("<|im_start|>assistant\n⟦4<|im_end|>⟧\n"), std::string::npos) << *sample;
  EXPECT_NE(sample->find("the template marks them"), std::string::npos);
  job_.chat_template = "gemma";  // refuses the system turn: shown without it
  EXPECT_NE(TemplateSample(job_, false)->find("model\n⟦6<end_of_turn>⟧"), std::string::npos);
  job_.chat_template = "tokenizer_default";
  EXPECT_NE(TemplateSample(job_, false).status().message().find("came with no chat template"),
            std::string::npos);
}

}  // namespace
}  // namespace coxswain::data
