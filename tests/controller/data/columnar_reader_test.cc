#include "controller/data/readers/columnar_reader.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include "controller/data/sources/dataset_reader.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

const std::string kFormats = "tests/fixtures/formats/";
const std::vector<std::string> kColumnFiles = {"records.parquet", "records.arrow",
                                               "records_stream.arrow"};

class ColumnarReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto api = LoadColumnarApi();
    if (!api.ok()) GTEST_SKIP() << api.status().message();
  }

  // Records as JSON until the end or an error, which lands in `status_`.
  std::vector<nlohmann::ordered_json> Read(const std::string& path,
                                           const std::vector<std::string>& columns = {}) {
    std::vector<nlohmann::ordered_json> records;
    std::vector<Column> wanted;
    for (const std::string& column : columns) wanted.push_back({column});
    auto reader = RecordReader::Open(path, wanted);
    left_out_.clear();
    if (reader.ok()) left_out_ = (*reader)->left_out();
    status_ = reader.status();
    RawRecord raw;
    while (status_.ok()) {
      const absl::StatusOr<bool> more = (*reader)->Next(&raw);
      status_ = more.status();
      if (!more.ok() || !*more) break;
      EXPECT_EQ(raw.line, static_cast<int64_t>(records.size()) + 1);
      EXPECT_LE((*reader)->consumed_bytes(), (*reader)->file_bytes());
      records.push_back(nlohmann::ordered_json::parse(raw.json, nullptr, false));
    }
    return records;
  }

  std::string Message() const { return std::string(status_.message()); }

  support::ScratchFolder scratch_;
  absl::Status status_;
  std::vector<LeftOutColumn> left_out_;
};

bool Says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ColumnarReaderTest, GivesTheRecordsOfJsonLines) {
  const auto expected = Read(kFormats + "records.jsonl");
  ASSERT_EQ(expected.size(), 25u);
  for (const std::string& name : kColumnFiles) {
    EXPECT_EQ(Read(kFormats + name), expected) << name;
    EXPECT_TRUE(status_.ok()) << status_;
  }
}

TEST_F(ColumnarReaderTest, WritesEveryTypeAsJson) {
  const auto expected = nlohmann::ordered_json::parse(R"({
      "none": null, "flag": true, "small": -8, "large": 18446744073709551615, "single": 0.1,
      "double": 1e+300, "nan": null, "text": "a\"b", "long": "é", "word": "red", "money": "12.30",
      "day": "2024-01-31", "clock": "12:34:56.000", "when": "2024-01-31T12:00:00.500",
      "zoned": "2024-01-31T12:00:00.500000Z", "list": [1, null, 3], "pair": [4, 5],
      "map": {"k": 1, "l": null},
      "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}]})");
  for (const char* name : {"types.parquet", "types.arrow"}) {
    const auto records = Read(kFormats + name);
    ASSERT_EQ(records.size(), 2u) << name << status_;
    EXPECT_EQ(records[0], expected) << name;
    for (const auto& [key, value] : records[1].items()) EXPECT_TRUE(value.is_null()) << key;
    EXPECT_EQ(records[1].size(), expected.size());
  }
}

TEST_F(ColumnarReaderTest, DecodesTheColumnsThatAreReadOrAllWithoutAny) {
  for (const std::string& name : kColumnFiles) {
    const auto some = Read(kFormats + name, {"output", "input", "absent"});
    ASSERT_EQ(some.size(), 25u) << status_;
    EXPECT_EQ(some[0].dump(), R"({"input":"","output":"The Pacific."})") << name;
    EXPECT_EQ(Read(kFormats + name, {"absent", "output"})[0].size(), 1u) << name;
    EXPECT_EQ(left_out_.size(), 2u) << name;
    EXPECT_EQ(Read(kFormats + name, {"absent"})[0].size(), 3u) << name;
  }
  EXPECT_EQ(Read(kFormats + "types.parquet", {"messages"})[0].dump(),
            R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null}]})");
}

TEST_F(ColumnarReaderTest, RefusesBinaryByItsColumnWhereItIsRead) {
  Read(kFormats + "pictures.parquet", {"picture"});
  EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Says(Message(), "pictures.parquet: column \"picture\" is of type binary"))
      << Message();
}

// Whether a format reads it is not known while the format is told by the columns.
TEST_F(ColumnarReaderTest, LeavesOutWhatHasNoFormInJsonWhereNobodyNeedsIt) {
  for (const std::vector<std::string>& columns : {std::vector<std::string>{"text"}, {}}) {
    const auto records = Read(kFormats + "pictures.parquet", columns);
    ASSERT_EQ(records.size(), 1u) << status_;
    EXPECT_EQ(records[0].dump(), R"({"text":"a"})");
    ASSERT_EQ(left_out_.size(), 1u);
    EXPECT_EQ(left_out_[0].name, "picture");
    EXPECT_EQ(left_out_[0].type, columns.empty() ? "binary" : "");
  }
}

TEST_F(ColumnarReaderTest, ReportsFilesCutShort) {
  for (const std::string& name : kColumnFiles) {
    const std::string whole = support::ReadFile(kFormats + name);
    for (size_t size = 16; size < whole.size() - 16; size += 97) {
      const auto some = Read(scratch_.Write("cut", whole.substr(0, size)));
      EXPECT_LT(some.size(), 25u) << name << " at " << size;
      // A stream cut between two batches has no mark of its end; its size alone tells.
      if (name != "records_stream.arrow") {
        EXPECT_FALSE(status_.ok()) << name << " at " << size;
      }
    }
  }
}

TEST_F(ColumnarReaderTest, SurvivesDamagedFiles) {
  for (const std::string& name : kColumnFiles) {
    const std::string whole = support::ReadFile(kFormats + name);
    for (size_t at = 8; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
      Read(scratch_.Write("damaged", damaged));
    }
  }
}

// Records before a slice are no records that lack a column.
TEST_F(ColumnarReaderTest, SlicesCountWhatIsLeftOutOfTheirRecordsAlone) {
  for (const char* name : {"/train-1.parquet", "/train-2.parquet"}) {
    std::filesystem::copy_file(kFormats + "pictures.parquet", scratch_.path() + name);
  }
  config::DatasetSpec dataset;
  dataset.path = scratch_.path();
  dataset.split = "train[50%:]";
  const auto reader = DatasetReader::Open(dataset);
  ASSERT_TRUE(reader.ok()) << reader.status();
  RawRecord raw;
  ASSERT_TRUE((*reader)->Next(&raw).value());
  EXPECT_TRUE(raw.path.ends_with("/train-2.parquet"));
  EXPECT_FALSE((*reader)->Next(&raw).value());
  EXPECT_EQ((*reader)->LeftOutColumns().at("picture").records, 1);
}

}  // namespace
}  // namespace coxswain::data
