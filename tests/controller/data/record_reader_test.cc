#include "controller/data/readers/record_reader.h"

#include <zlib.h>
#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

using Lines = std::vector<std::pair<int64_t, std::string>>;

std::string Gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// With a checksum, as the program zstd writes it.
std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()) + 4, '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

class RecordReaderTest : public testing::Test {
 protected:
  // Records until the end or an error; the error's message lands in `error_`.
  Lines Read(const std::string& contents, const std::string& name = "data") {
    Lines records;
    error_.clear();
    auto reader = RecordReader::Open(scratch_.Write(name, contents));
    if (!reader.ok()) {
      error_ = std::string(reader.status().message());
      return records;
    }
    RawRecord raw;
    while (true) {
      absl::StatusOr<bool> more = (*reader)->Next(&raw);
      if (!more.ok()) error_ = std::string(more.status().message());
      if (!more.ok() || !*more) return records;
      records.emplace_back(raw.line, raw.error.empty() ? std::string(raw.json) : "TOO LONG");
    }
  }
  std::string ErrorAt(const std::string& contents, int line) {
    Read(contents);
    const std::string place = scratch_.path() + "/data:" + std::to_string(line) + ": ";
    return error_.starts_with(place) ? error_.substr(place.size()) : "elsewhere: " + error_;
  }

  support::ScratchFolder scratch_;
  std::string error_;
};

TEST_F(RecordReaderTest, SplitsLinesAndCountsThem) {
  EXPECT_EQ(Read("{1}\n\n  \n{2}\r\n{3}"), (Lines{{1, "{1}"}, {4, "{2}"}, {5, "{3}"}}));
  EXPECT_EQ(Read("\n{1}\n"), (Lines{{2, "{1}"}}));
  EXPECT_EQ(error_, "");
}

TEST_F(RecordReaderTest, SplitsAnArrayAndSaysWhereEachRecordStarts) {
  EXPECT_EQ(
      Read("[\n  {\"a\": [1, 2]},\n\n  {\"b\": \"x,]}\\\"\"\n  }, 3 ,\"s\"]\n"),
      (Lines{{2, "{\"a\": [1, 2]}"}, {4, "{\"b\": \"x,]}\\\"\"\n  }"}, {5, "3"}, {5, "\"s\""}}));
  EXPECT_EQ(error_, "");
  EXPECT_EQ(Read("[]"), Lines{});
  EXPECT_EQ(error_, "");
  EXPECT_EQ(Read("[{1}]"), (Lines{{1, "{1}"}}));
}

TEST_F(RecordReaderTest, SkipsAByteOrderMark) {
  EXPECT_EQ(Read("\xEF\xBB\xBF{1}\n"), (Lines{{1, "{1}"}}));
  EXPECT_EQ(Read("\xEF\xBB\xBF[{1}]"), (Lines{{1, "{1}"}}));
}

TEST_F(RecordReaderTest, EmptyFilesHaveNoRecords) {
  for (const char* empty : {"", "\n\n", "\xEF\xBB\xBF", "  ", "[ \n ]"}) {
    EXPECT_EQ(Read(empty), Lines{}) << '"' << empty << '"';
    EXPECT_EQ(error_, "");
  }
}

TEST_F(RecordReaderTest, TellsGzipAndLayoutByContentNotByName) {
  EXPECT_EQ(Read(Gzip("{1}\n{2}\n"), "data.json"), (Lines{{1, "{1}"}, {2, "{2}"}}));
  EXPECT_EQ(Read(Gzip("[{1},\n{2}]"), "data.jsonl"), (Lines{{1, "{1}"}, {2, "{2}"}}));
  EXPECT_EQ(Read("{1}", "data.gz"), (Lines{{1, "{1}"}}));
  EXPECT_EQ(Read(Gzip("{1}\n") + Gzip("{2}\n")), (Lines{{1, "{1}"}, {2, "{2}"}}));
}

TEST_F(RecordReaderTest, ReportsAGzipFileCutShortOrDamaged) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "{\"n\": " + std::to_string(i * 7919) + "}\n";
  std::string whole = Gzip(text);
  Read(whole.substr(0, whole.size() / 2));
  EXPECT_NE(error_.find("damaged or cut short"), std::string::npos) << error_;
  Read(whole.substr(0, whole.size() - 4));
  EXPECT_NE(error_.find("damaged or cut short"), std::string::npos) << error_;
  whole[whole.size() / 2] ^= 0x55;
  Read(whole);
  EXPECT_NE(error_.find("damaged or cut short"), std::string::npos) << error_;
}

TEST_F(RecordReaderTest, ReadsZstdByContentOfOneFrameOrMore) {
  EXPECT_EQ(Read(Zstd("{1}\n{2}\n"), "data.json"), (Lines{{1, "{1}"}, {2, "{2}"}}));
  EXPECT_EQ(Read(Zstd("[{1},\n") + Zstd("{2}]")), (Lines{{1, "{1}"}, {2, "{2}"}}));
  EXPECT_EQ(Read(Zstd("")), Lines{});
  EXPECT_EQ(error_, "");
  EXPECT_EQ(Read(Zstd("a,b\n1,2\n"), "d.csv.zst"), (Lines{{2, R"({"a": "1", "b": "2"})"}}));
}

TEST_F(RecordReaderTest, ReportsAZstdFileCutShortOrDamaged) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "{\"n\": " + std::to_string(i * 7919) + "}\n";
  std::string whole = Zstd(text);
  EXPECT_EQ(Read(whole).size(), 200000u);
  for (const size_t size : {whole.size() / 2, whole.size() - 1}) {
    Read(whole.substr(0, size));
    EXPECT_NE(error_.find("damaged or cut short"), std::string::npos) << error_;
  }
  whole[whole.size() / 2] ^= 0x55;
  Read(whole);
  EXPECT_NE(error_.find("damaged or cut short"), std::string::npos) << error_;
}

TEST_F(RecordReaderTest, RefusesTextThatIsNotUtf8AndColumnsInACompressedStream) {
  Read("\xFF\xFE{");
  EXPECT_NE(error_.find("is UTF-16; save it as UTF-8"), std::string::npos) << error_;
  Read("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  EXPECT_NE(error_.find("is a Git LFS pointer to a file of 12345 bytes, which was not fetched: run "
                        "git lfs pull"),
            std::string::npos)
      << error_;
  Read(Gzip("PAR1..."));
  EXPECT_NE(error_.find("is Parquet in a compressed stream"), std::string::npos) << error_;
}

TEST_F(RecordReaderTest, ReportsBrokenArraysWithTheirLine) {
  EXPECT_NE(ErrorAt("[{1},\n{2}", 2).find("cut short"), std::string::npos) << error_;
  EXPECT_NE(ErrorAt("[{1},\n{\"a\": \"x\n\n", 2).find("never ends"), std::string::npos) << error_;
  EXPECT_NE(ErrorAt("[{1},\n\n{2]\n", 3).find("never ends"), std::string::npos) << error_;
  EXPECT_NE(ErrorAt("[{1},\n]", 2).find("comma before"), std::string::npos) << error_;
  EXPECT_NE(ErrorAt("[{1}]\n{2}", 2).find("after the closing"), std::string::npos) << error_;
  EXPECT_NE(ErrorAt("[{1},,{2}]", 1).find("missing"), std::string::npos) << error_;
}

TEST_F(RecordReaderTest, RecordsCrossReadBoundaries) {
  for (const bool array : {false, true}) {
    Lines expected;
    std::string contents = array ? "[" : "";
    for (int i = 0; i < 700; ++i) {
      const std::string json = "{\"x\": \"" + std::string(i * 37 % 9001, 'a' + i % 26) + "\\\\\"}";
      if (array && i > 0) contents += ",\n";
      contents += json + (array ? "" : "\n");
      expected.emplace_back(i + 1, json);
    }
    if (array) contents += "]";
    ASSERT_GT(contents.size(), size_t{2} << 20);
    EXPECT_EQ(Read(contents), expected);
  }
}

TEST_F(RecordReaderTest, HandsOnAHugeRecordAndFlagsOneThatIsTooLong) {
  const std::string huge = "\"" + std::string(kMaxRecordBytes - 2, 'x') + "\"";
  EXPECT_EQ(Read(huge + "\n{2}\n"), (Lines{{1, huge}, {2, "{2}"}}));
  const std::string longer = "\"" + std::string(kMaxRecordBytes + (3 << 20), 'x') + "\"";
  EXPECT_EQ(Read("{0}\n" + longer + "\n{2}\n"), (Lines{{1, "{0}"}, {2, "TOO LONG"}, {3, "{2}"}}));
  EXPECT_EQ(Read("[{0},\n" + longer + ",\n{2}]"), (Lines{{1, "{0}"}, {2, "TOO LONG"}, {3, "{2}"}}));
}

TEST_F(RecordReaderTest, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(RecordReader::Open(scratch_.path()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RecordReader::Open(scratch_.path() + "/none").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace coxswain::data
