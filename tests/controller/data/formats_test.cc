// The same records through every kind of file.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include "controller/data/prepare/cache_entry.h"
#include "controller/data/prepare/prepare.h"
#include "controller/data/readers/columnar_reader.h"
#include "tests/common/config/default_spec.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

const std::string kFormatFiles = "tests/fixtures/formats/";

class FormatsTest : public testing::Test {
 protected:
  FormatsTest() {
    fs::create_directory(scratch_.path() + "/model");
    job_.model_path = scratch_.path() + "/model";
    job_.val_set_size = 3;
    WriteByteTokenizer(job_.model_path);
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 2;
    job_.datasets = {config::DefaultDataset()};
  }

  // The bytes of both token stores; the hash is in `hash_`.
  std::string Stores(const std::string& path) {
    job_.datasets[0].path = path;
    const auto data = PrepareData(job_, options_);
    EXPECT_TRUE(data.ok()) << path << ": " << data.status();
    if (!data.ok()) return "";
    hash_ = data->content_hash;
    warnings_ = data->warnings;
    const std::string entry = options_.cache_dir + "/" + hash_ + "/";
    return support::ReadFile(entry + kTrainFile) + support::ReadFile(entry + kEvalFile);
  }

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  PrepareOptions options_;
  std::string hash_;
  std::vector<std::string> warnings_;
};

TEST_F(FormatsTest, EveryKindOfTextGivesTheSameTokenStores) {
  const std::string expected = Stores(kFormatFiles + "records.jsonl");
  ASSERT_FALSE(expected.empty());
  for (const char* name :
       {"records.json", "records.jsonl.gz", "records.jsonl.zst", "records.csv", "records.tsv"}) {
    EXPECT_EQ(Stores(kFormatFiles + name), expected) << name;
  }
}

TEST_F(FormatsTest, ParquetAndArrowGiveTheTokenStoresOfJson) {
  if (!LoadColumnarApi().ok()) GTEST_SKIP() << LoadColumnarApi().status().message();
  const std::string expected = Stores(kFormatFiles + "records.jsonl");
  for (const char* name : {"records.parquet", "records.arrow", "records_stream.arrow"}) {
    EXPECT_EQ(Stores(kFormatFiles + name), expected) << name;
  }
}

TEST_F(FormatsTest, ParquetIsRefusedWithTheCommandThatInstallsItsReader) {
  const absl::Status refused = LoadColumnarLibrary("libcoxswain_absent.so").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  const std::string message(refused.message());
  EXPECT_NE(message.find("Build it alone: deploy/fetch-arrow.sh && deploy/build.sh "),
            std::string::npos)
      << message;
  EXPECT_TRUE(message.ends_with(" coxswain_columnar")) << message;
  if (LoadColumnarApi().ok()) return;
  job_.datasets[0].path = kFormatFiles + "records.parquet";
  EXPECT_EQ(PrepareData(job_, options_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FormatsTest, FilesOfAFolderAreTheRecordsOfOne) {
  const std::string expected = Stores(kFormatFiles + "records.jsonl");
  const std::string lines = support::ReadFile(kFormatFiles + "records.jsonl");
  const size_t middle = lines.find('\n', lines.size() / 2) + 1;
  const std::string folder = scratch_.path() + "/folder";
  fs::create_directory(folder);
  scratch_.Write("folder/train-1.jsonl", lines.substr(middle));
  scratch_.Write("folder/train-0.jsonl", lines.substr(0, middle));
  scratch_.Write("folder/test-0.jsonl", "no JSON");
  EXPECT_EQ(Stores(folder), expected);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_TRUE(warnings_[0].ends_with("split train: train-0.jsonl, train-1.jsonl")) << warnings_[0];
  const std::string hash = hash_;
  fs::rename(folder, folder + ".moved");
  EXPECT_EQ(Stores(folder + ".moved/train-?.jsonl"), expected);
  EXPECT_EQ(hash_, hash) << "the hash is of contents, not of names";
}

TEST_F(FormatsTest, MaxSamplesAndTheNameOfCsvChangeTheHash) {
  Stores(kFormatFiles + "records.jsonl");
  const std::string all = hash_;
  job_.datasets[0].max_samples = 20;
  Stores(kFormatFiles + "records.jsonl");
  EXPECT_NE(hash_, all);
  job_.datasets[0].format = config::DatasetFormat::kCompletion;
  job_.datasets[0].max_samples.reset();
  job_.val_set_size.reset();
  Stores(scratch_.Write("a.csv", "text\nhello\n"));
  const std::string csv = hash_;
  Stores(scratch_.Write("a.txt", "text\nhello\n"));
  EXPECT_NE(hash_, csv);
}

TEST_F(FormatsTest, ABadRecordIsNamedByItsFileAndLine) {
  const std::string path = scratch_.Write("bad.csv", "instruction,output\na,b\nonly one\n");
  job_.datasets[0].path = path;
  job_.val_set_size.reset();
  EXPECT_EQ(PrepareData(job_, options_).status().message(),
            path + ":3: the row has 1 fields, the header 2");
}

}  // namespace
}  // namespace coxswain::data
