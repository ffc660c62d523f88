#include "controller/data/sources/resolve_formats.h"

#include <string>

#include <gtest/gtest.h>
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using config::DatasetFormat;
using config::OnBadRecord;

class ResolveFormatsTest : public testing::Test {
 protected:
  absl::StatusOr<DatasetFormat> Resolve(const std::string& file, const std::string& contents) {
    config::JobSpec job = config::DefaultSpec();
    job.on_bad_record = on_bad_record_;
    job.datasets = {config::DefaultDataset()};
    job.datasets[0].path = scratch_.Write(file, contents);
    const auto resolved = ResolveFormats(job);
    if (!resolved.ok()) return resolved.status();
    return resolved->datasets[0].format;
  }

  support::ScratchFolder scratch_;
  OnBadRecord on_bad_record_ = OnBadRecord::kError;
};

TEST_F(ResolveFormatsTest, TheFirstRecordTells) {
  EXPECT_EQ(Resolve("t.jsonl", "{\"text\": \"a\"}\n").value(), DatasetFormat::kCompletion);
  EXPECT_EQ(Resolve("m.jsonl", "{\"messages\": []}\n").value(), DatasetFormat::kChat);
}

TEST_F(ResolveFormatsTest, ABadFirstRecordIsRefusedOrPassedOver) {
  const std::string lines = "{\"text\": \n{\"instruction\": \"i\", \"output\": \"o\"}\n";
  EXPECT_NE(Resolve("b.jsonl", lines).status().message().find("b.jsonl:1: "), std::string::npos);
  on_bad_record_ = OnBadRecord::kSkip;
  EXPECT_EQ(Resolve("b.jsonl", lines).value(), DatasetFormat::kAlpaca);
  EXPECT_NE(Resolve("all.jsonl", "{\n{\n").status().message().find("all.jsonl:1: "),
            std::string::npos);
}

TEST_F(ResolveFormatsTest, TellsWhatTheReaderFoundWrong) {
  const absl::Status ragged = Resolve("r.csv", "text,more\na,b,c\n").status();
  EXPECT_NE(ragged.message().find("r.csv:2: "), std::string::npos) << ragged;
  EXPECT_EQ(ragged.message().find("JSON"), std::string::npos) << ragged;
}

}  // namespace
}  // namespace coxswain::data
