// What `cox data check` tells of a source.
#include "controller/data/look/source_check.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

class SourceCheckTest : public testing::Test {
 protected:
  SourceCheckTest() {
    job_.model_path = scratch_.path();
    WriteByteTokenizer(scratch_.path());
  }

  SourceReport Check(const std::string& records) {
    config::DatasetSpec dataset = config::DefaultDataset();
    dataset.path = scratch_.Write("d.jsonl", records);
    const auto report = CheckSource(job_, dataset);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : SourceReport();
  }
  static const Finding& Found(const SourceReport& report, NoteKind kind,
                              const std::string& name = "") {
    static const Finding kNothing;
    const auto found = report.findings.all().find({kind, name});
    return found == report.findings.all().end() ? kNothing : found->second;
  }
  static std::string Lines(const Finding& finding) {
    std::string lines;
    for (const RecordPlace& place : finding.first) lines += std::to_string(place.line) + " ";
    return lines;
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(SourceCheckTest, ACleanSourceHasNoFinding) {
  const SourceReport report = Check(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "longer"}]}
)");
  EXPECT_TRUE(report.clean()) << SourceReportText(report, 10);
  EXPECT_EQ(report.records, 2);
  EXPECT_EQ(report.roles, (std::map<std::string, int64_t>{{"assistant", 2}, {"user", 2}}));
  ASSERT_EQ(report.longest.size(), 2u);
  EXPECT_EQ(report.longest[0].place.line, 2);
  EXPECT_NE(SourceReportText(report, 10).find("nothing found"), std::string::npos);
}

std::string RecordOfFields(int fields) {
  std::string record = R"({"messages": [{"role": "user", "content": "q"}, )"
                       R"({"role": "assistant", "content": "a"}])";
  for (int i = 1; i < fields; ++i) record += ", \"f" + std::to_string(i) + "\": 1";
  return record + "}\n";
}

TEST_F(SourceCheckTest, FieldsBeyondThoseThatAreNamedAreOne) {
  const SourceReport report = Check(RecordOfFields(1000) + RecordOfFields(1000));
  ASSERT_EQ(report.fields.size(), 1 + Findings::kMaxNames + 1);
  EXPECT_TRUE(report.fields[0].read);
  EXPECT_EQ(report.fields.back().name, "...");
  EXPECT_EQ(report.fields.back().records, 2);
  EXPECT_EQ(Found(report, NoteKind::kUnreadField, "f1").records, 2);
  EXPECT_EQ(Found(report, NoteKind::kUnreadField, "...").records, 2);
  EXPECT_EQ(Found(report, NoteKind::kUnreadField, "...").times, 2 * (999 - 100));
}

// It would take hours, in the preparation of a job too.
TEST_F(SourceCheckTest, ARecordOfAMillionFieldsIsBadAtOnce) {
  const SourceReport report = Check(RecordOfFields(2) + RecordOfFields(1'000'000));
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(
      Found(report, NoteKind::kBadRecord, "an object of it has more than 10000 fields").records, 1);
}

TEST_F(SourceCheckTest, FieldsDuplicatesAndEmptyAnswersAreToldByRecord) {
  const SourceReport report = Check(R"({"instruction": "q", "output": "a", "id": 1}
{"instruction": "q", "output": " "}
{"instruction": "r", "output": "a"}
{"instruction": "q", "output": "a", "id": 4}
{"instruction": "q"}
nonsense
)");
  EXPECT_FALSE(report.clean());
  EXPECT_EQ(Lines(Found(report, NoteKind::kUnreadField, "id")), "1 4 ");
  EXPECT_EQ(Lines(Found(report, NoteKind::kEmptyAnswer)), "2 ");
  EXPECT_EQ(Lines(Found(report, NoteKind::kDuplicate)), "4 ");
  EXPECT_EQ(report.duplicates.at(0).of.line, 1);
  EXPECT_EQ(Lines(Found(report, NoteKind::kBadRecord, "field \"output\" is missing")), "5 ");
  const auto json = SourceReportJson(report);
  EXPECT_EQ(json["clean"], false);
  EXPECT_EQ(json["fields"][2].dump(), R"({"name":"id","records":2,"read":false})");
  EXPECT_EQ(json["duplicates"][0]["of"], report.files[0] + ":1");
  const std::string text = SourceReportText(report, 1);
  EXPECT_NE(text.find("not read: id (2)"), std::string::npos) << text;
  EXPECT_NE(
      text.find("field that is not read \"id\": 2 records: " + report.files[0] + ":1 and 1 more"),
      std::string::npos)
      << text;
}

TEST_F(SourceCheckTest, AnEmptyAssistantTurnIsAnEmptyAnswerAndABadRecord) {
  const SourceReport report = Check(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": " "}], "id": 1}
)");
  EXPECT_EQ(Lines(Found(report, NoteKind::kEmptyAnswer)), "2 ");
  EXPECT_EQ(report.findings.all().size(), 2u) << SourceReportText(report, 10);
}

TEST_F(SourceCheckTest, CutAnswersAndTurnsWithoutAnEndAreToldByRecord) {
  ByteTokenizerSpec endless;
  endless.chat_template =
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}";
  WriteByteTokenizer(scratch_.path(), endless);
  job_.sequence_len = 30;
  const SourceReport report = Check(
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "an answer that is cut"}]}
)");
  EXPECT_EQ(Lines(Found(report, NoteKind::kUnended)), "1 2 ");
  EXPECT_EQ(Lines(Found(report, NoteKind::kAnswerCut)), "2 ");
  EXPECT_EQ(report.longest.at(0).tokens, 41);
}

TEST_F(SourceCheckTest, RecordsOfPreferenceTuningAreFindings) {
  const SourceReport report = Check(R"({"prompt": "q", "completion": "a"}
{"prompt": "q", "completion": "b", "label": false}
)");
  EXPECT_EQ(report.findings.all().size(), 1u);
  EXPECT_EQ(report.findings.all().begin()->first.first, NoteKind::kBadRecord);
}

}  // namespace
}  // namespace coxswain::data
