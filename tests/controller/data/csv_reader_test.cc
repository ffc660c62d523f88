#include "controller/data/readers/csv_reader.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include "absl/strings/str_cat.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using Rows = std::vector<std::pair<int64_t, std::string>>;

class CsvReaderTest : public testing::Test {
 protected:
  // Records, bad ones as "BAD: ..."; the error that ended the reading lands in `error_`.
  Rows Read(const std::string& contents, const std::string& name = "d.csv") {
    Rows rows;
    error_.clear();
    auto reader = RecordReader::Open(scratch_.Write(name, contents));
    if (!reader.ok()) {
      error_ = std::string(reader.status().message());
      return rows;
    }
    RawRecord raw;
    absl::StatusOr<bool> more = false;
    while ((more = (*reader)->Next(&raw)).ok() && *more) {
      rows.emplace_back(
          raw.line, raw.error.empty() ? std::string(raw.json) : "BAD: " + std::string(raw.error));
    }
    if (!more.ok()) error_ = std::string(more.status().message());
    return rows;
  }

  support::ScratchFolder scratch_;
  std::string error_;
};

TEST_F(CsvReaderTest, ReadsRowsAsObjectsOfStrings) {
  EXPECT_EQ(Read("a,b\n1,x y\n\n,\n"),
            (Rows{{2, R"({"a": "1", "b": "x y"})"}, {4, R"({"a": "", "b": ""})"}}));
  EXPECT_EQ(Read("a\n\"\"\n"), (Rows{{2, R"({"a": ""})"}}));
  EXPECT_EQ(error_, "");
}

TEST_F(CsvReaderTest, QuotedValuesHoldSeparatorsLineFeedsAndQuotes) {
  EXPECT_EQ(
      Read("a,b\r\n\"x,\"\"y\"\"\r\nz\",\"\t\\\"\r\n3,4\r\n"),
      (Rows{{2, R"({"a": "x,\"y\"\u000d\nz", "b": "\u0009\\"})"}, {4, R"({"a": "3", "b": "4"})"}}));
  EXPECT_EQ(error_, "");
}

TEST_F(CsvReaderTest, PassesOverAByteOrderMarkAndNeedsNoLastLineFeed) {
  EXPECT_EQ(Read("\xEF\xBB\xBF\"a\",b\r\n1,\r\n2,3\r"),
            (Rows{{2, R"({"a": "1", "b": ""})"}, {3, R"({"a": "2", "b": "3"})"}}));
}

TEST_F(CsvReaderTest, TheHeaderTellsTheSeparator) {
  EXPECT_EQ(Read("a,x\tb\n1\t2,3\n", "d.tsv"), (Rows{{2, R"({"a,x": "1", "b": "2,3"})"}}));
  EXPECT_EQ(Read("a;b\n1,5;2\n"), (Rows{{2, R"({"a": "1,5", "b": "2"})"}}));
  EXPECT_EQ(Read("\"a;\tb\",c\n1,2\n"), (Rows{{2, R"({"a;\u0009b": "1", "c": "2"})"}}));
}

TEST_F(CsvReaderTest, RaggedRowsAreBadRecordsAndTheNextOnesAreRead) {
  EXPECT_EQ(Read("a,b\n1\n1,2,3\n\"x\"y,2\n5,6\n"),
            (Rows{{2, "BAD: the row has 1 fields, the header 2"},
                  {3, "BAD: the row has 3 fields, the header 2"},
                  {4,
                   "BAD: text after the closing quote of a value; a quote inside one is written "
                   "twice"},
                  {5, R"({"a": "5", "b": "6"})"}}));
  EXPECT_EQ(error_, "");
}

TEST_F(CsvReaderTest, AQuoteThatNeverEndsIsAnErrorWithItsLine) {
  EXPECT_EQ(Read("a\n1\n\"x\ny\n").size(), 1u);
  EXPECT_NE(error_.find("d.csv:3: the quoted value that starts here never ends"), std::string::npos)
      << error_;
}

TEST_F(CsvReaderTest, RefusesAHeaderThatNamesAColumnTwice) {
  EXPECT_EQ(Read("a,b,a\n1,2,3\n"), Rows{});
  EXPECT_NE(error_.find("d.csv:1: the header names the column \"a\" twice"), std::string::npos)
      << error_;
}

TEST_F(CsvReaderTest, EmptyFilesHaveNoRecords) {
  for (const char* empty : {"", "\n\n", "\xEF\xBB\xBF", "a,b", "a,b\n"}) {
    EXPECT_EQ(Read(empty), Rows{}) << '"' << empty << '"';
    EXPECT_EQ(error_, "");
  }
}

TEST_F(CsvReaderTest, RowsCrossReadBoundaries) {
  Rows expected;
  std::string contents = "a,b\n";
  for (int i = 0; i < 900; ++i) {
    const std::string text(i * 37 % 2003, static_cast<char>('a' + i % 26));
    absl::StrAppend(&contents, "\"", text, "\"\"\",", text, "\r\n");
    expected.emplace_back(i + 2,
                          absl::StrCat("{\"a\": \"", text, "\\\"\", \"b\": \"", text, "\"}"));
  }
  ASSERT_GT(contents.size(), size_t{1} << 20);
  EXPECT_EQ(Read(contents), expected);
}

TEST_F(CsvReaderTest, FlagsARowThatIsTooLongWithoutKeepingIt) {
  const std::string longer(kMaxRecordBytes + 1, 'x');
  EXPECT_EQ(Read("a\n" + longer + "\n2\n"),
            (Rows{{2, "BAD: " + std::string(kTooLong)}, {3, R"({"a": "2"})"}}));
  EXPECT_EQ(Read("a\n" + std::string(1 << 18, ',') + "\n2\n").size(), 2u);
}

TEST_F(CsvReaderTest, JsonUnderANameOfCsvIsJson) {
  EXPECT_EQ(Read("{\"a\": 1}\n"), (Rows{{1, "{\"a\": 1}"}}));
  EXPECT_EQ(Read(" [{\"a\": 1}]\n"), (Rows{{1, "{\"a\": 1}"}}));
}

TEST_F(CsvReaderTest, LinesOfPlainTextAreRecords) {
  EXPECT_EQ(Read("say \"hi\"\n\nyou\n", "d.txt"),
            (Rows{{1, R"({"text": "say \"hi\""})"}, {3, R"({"text": "you"})"}}));
}

}  // namespace
}  // namespace coxswain::data
