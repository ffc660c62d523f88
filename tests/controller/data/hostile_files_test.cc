// Files that are no files, are larger than anything of use, or inflate without end, change while
// they are read: each fails the job that names it, with what to look at.
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "common/files/read_file.h"
#include "controller/data/prepare/content_hash.h"
#include "controller/data/prepare/prepare.h"
#include "controller/data/readers/bytes/byte_source.h"
#include "controller/text/tokenizer/file/gzip_file.h"
#include "controller/text/tokenizer/tokenizer.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

class HostileFilesTest : public testing::Test {
 protected:
  HostileFilesTest() {
    fs::create_directory(Model(""));
    WriteByteTokenizer(Model(""));
    job_.model_path = scratch_.path() + "/model";
    job_.datasets = {config::DefaultDataset()};
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 2;
  }

  std::string Model(const std::string& name) const { return scratch_.path() + "/model/" + name; }
  std::string Fifo(const std::string& path) const {
    fs::remove(path);
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  static void MakeSparse(const std::string& path, int64_t bytes) {
    fs::remove(path);
    fclose(fopen(path.c_str(), "w"));
    ASSERT_EQ(truncate(path.c_str(), bytes), 0);
  }
  absl::Status Prepared(const std::string& dataset) {
    job_.datasets[0].path = dataset;
    return PrepareData(job_, options_).status();
  }
  // Reads to the end, or to an error; `each` is called between the reads.
  static absl::Status ReadAll(
      const std::string& path, int64_t* bytes, const std::function<void()>& each = [] {}) {
    auto source = ByteSource::Open(path);
    if (!source.ok()) return source.status();
    std::string chunk(1 << 16, '\0');
    while (true) {
      const absl::StatusOr<size_t> got = (*source)->Read(chunk.data(), chunk.size());
      if (!got.ok()) return got.status();
      if (*got == 0) return absl::OkStatus();
      *bytes += static_cast<int64_t>(*got);
      each();
    }
  }

  const support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  PrepareOptions options_;
};

void ExpectSays(const absl::Status& status, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in: " << status;
  }
}

TEST_F(HostileFilesTest, AFifoIsNoDataset) {
  const std::string fifo = Fifo(scratch_.path() + "/data.jsonl");
  for (const config::DatasetFormat format :
       {config::DatasetFormat::kCompletion, config::DatasetFormat::kAuto}) {
    job_.datasets[0].format = format;
    const absl::Status refused = Prepared(fifo);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    ExpectSays(refused, {fifo, "it is a FIFO, no file"});
  }
}

TEST_F(HostileFilesTest, AFifoIsNoFileOfAModel) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    Fifo(Model(name));
    const absl::Status refused = Tokenizer::Load(Model("")).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    ExpectSays(refused, {name, "it is a FIFO, no file"});
    fs::remove(Model(name));
    if (std::string(name) == "tokenizer.json") WriteByteTokenizer(Model(""));
  }
}

// The first ended the controller at each of five starts.
TEST_F(HostileFilesTest, FilesOfAModelAreReadUpToABound) {
  const std::tuple<const char*, int64_t, const char*> files[] = {
      {"tokenizer.json", int64_t{64} << 30, "has 68719476736 bytes, at most 268435456 are read"},
      {"tokenizer_config.json", (16 << 20) + 1, "has 16777217 bytes, at most 16777216 are read"},
      {"chat_template.jinja", (4 << 20) + 1, "has 4194305 bytes, at most 4194304 are read"}};
  for (const auto& [name, bytes, said] : files) {
    MakeSparse(Model(name), bytes);
    const absl::Status refused = Tokenizer::Load(Model("")).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    ExpectSays(refused, {name, said});
    fs::remove(Model(name));
    if (std::string(name) == "tokenizer.json") WriteByteTokenizer(Model(""));
  }
}

TEST_F(HostileFilesTest, WhatInflatesWithoutEndIsReadUpToTheBound) {
  const std::string bomb = Gzip(std::string(64 << 20, ' '));
  ASSERT_LT(bomb.size() * 200, size_t{64} << 20);
  const std::string path = scratch_.Write("tokenizer.json.gz", bomb);
  const absl::Status refused = ReadMaybeGzip(path).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  ExpectSays(refused, {path, std::to_string(bomb.size()) + " bytes",
                       "inflates to more than " + std::to_string(bomb.size() * 200),
                       "to 200 times its size"});
  EXPECT_FALSE(ReadMaybeGzip(scratch_.Write("small.gz", Gzip(std::string(5000, 'x'))), 4999).ok());
  EXPECT_EQ(ReadMaybeGzip(scratch_.Write("fits.gz", Gzip(std::string(5000, 'x'))), 5000)->size(),
            5000u);
}

TEST_F(HostileFilesTest, ADatasetInflatesToAtMostTwoHundredTimesItsSize) {
  const std::string zeros(256 << 20, '\n');
  for (const std::string& packed : {Gzip(zeros), Zstd(zeros)}) {
    int64_t bytes = 0;
    const std::string path = scratch_.Write("data.jsonl", packed);
    const absl::Status refused = ReadAll(path, &bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    ExpectSays(refused, {path, std::to_string(packed.size()) + " bytes", "200 times its size"});
    const auto bound = static_cast<int64_t>(std::max<size_t>(packed.size() * 200, 1 << 20));
    EXPECT_LE(bytes, bound);  // nothing was inflated beyond it
    EXPECT_GE(bytes, bound - (1 << 17));
  }
}

TEST_F(HostileFilesTest, ADatasetThatIsCutWhileItIsReadIsAnError) {
  std::string lines;
  for (int i = 0; i < 40'000; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
  for (const bool packed : {false, true}) {
    const std::string path = scratch_.Write("data.jsonl", packed ? Zstd(lines) : lines);
    const auto half = static_cast<off_t>(fs::file_size(path) / 2);
    int64_t bytes = 0;
    const absl::Status cut =
        ReadAll(path, &bytes, [&] { ASSERT_EQ(truncate(path.c_str(), half), 0); });
    EXPECT_TRUE(absl::IsDataLoss(cut) || packed) << cut;
    if (!packed) ExpectSays(cut, {path, "it was written while it was read"});
  }
}

}  // namespace
}  // namespace coxswain::data
