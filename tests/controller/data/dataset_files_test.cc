#include "controller/data/dataset_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include "controller/data/dataset_reader.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

class DatasetFilesTest : public testing::Test {
 protected:
  DatasetFilesTest() { dataset_.path = scratch_.path(); }

  void Files(const Names& names, const std::string& contents = "{}\n") {
    for (const std::string& name : names) {
      fs::create_directories(fs::path(scratch_.path() + "/" + name).parent_path());
      scratch_.Write(name, contents);
    }
  }

  // Names below the scratch folder.
  Names List() {
    const auto files = ListDatasetFiles(dataset_);
    EXPECT_TRUE(files.ok()) << files.status();
    Names names;
    if (!files.ok()) return names;
    note_ = files->note;
    for (const std::string& path : files->paths) {
      names.push_back(path.substr(scratch_.path().size() + 1));
    }
    return names;
  }

  // What follows "dataset PATH".
  std::string Error() {
    const auto files = ListDatasetFiles(dataset_);
    EXPECT_EQ(files.status().code(), absl::StatusCode::kInvalidArgument);
    const std::string start = "dataset " + dataset_.path;
    const std::string message(files.status().message());
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(std::min(start.size(), message.size()));
  }

  support::ScratchFolder scratch_;
  config::DatasetSpec dataset_;
  std::string note_;
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(DatasetFilesTest, AFolderIsItsDataSortedByName) {
  Files({"b.jsonl", "a.json.gz", "c.jsonl.zst", ".hidden.jsonl", "README.md", "dataset_infos.json",
         "state.json", "notes.pdf", "below/d.jsonl"});
  EXPECT_EQ(List(), (Names{"a.json.gz", "b.jsonl", "c.jsonl.zst"}));
  EXPECT_EQ(note_, "");
}

TEST_F(DatasetFilesTest, TheTrainingSplitIsTakenWhereThereIsOne) {
  Files({"data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet",
         "data/test-00000-of-00001.parquet", "data/trainees.parquet"});
  EXPECT_EQ(List(),
            (Names{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"}));
  EXPECT_TRUE(Has(note_, "2 of 4 files are read, those of split train: train-00000-of-00002.parq"))
      << note_;
  dataset_.split = "test";
  EXPECT_EQ(List(), Names{"data/test-00000-of-00001.parquet"});
  dataset_.split = "dev";
  EXPECT_TRUE(Has(Error(), " has no file of split \"dev\"; there are test-00000"));
}

TEST_F(DatasetFilesTest, HeldOutSourcesTakeTheHeldOutSplit) {
  Files({"train.jsonl", "test.jsonl", "validation.jsonl"});
  dataset_.held_out = true;
  EXPECT_EQ(List(), Names{"validation.jsonl"});
  fs::remove(scratch_.path() + "/validation.jsonl");
  EXPECT_EQ(List(), Names{"test.jsonl"});
  fs::remove(scratch_.path() + "/test.jsonl");
  EXPECT_EQ(List(), Names{"train.jsonl"});
}

TEST_F(DatasetFilesTest, AFolderNamedLikeTheSplitIsTaken) {
  Files({"dataset_dict.json", "train/data-00000-of-00001.arrow", "train/cache-12.arrow",
         "train/state.json", "test/data-00000-of-00001.arrow"});
  EXPECT_EQ(List(), Names{"train/data-00000-of-00001.arrow"});
  dataset_.split = "test";
  EXPECT_EQ(List(), Names{"test/data-00000-of-00001.arrow"});
}

TEST_F(DatasetFilesTest, AGlobIsWhatMatches) {
  Files({"x/train.jsonl", "y/train.csv", "y/LICENSE", "y/test.csv"});
  dataset_.path = scratch_.path() + "/**";
  EXPECT_EQ(List(), (Names{"x/train.jsonl", "y/test.csv", "y/train.csv"}));
  dataset_.split = "train";
  EXPECT_EQ(List(), (Names{"x/train.jsonl", "y/train.csv"}));
  dataset_.path = scratch_.path() + "/*.parquet";
  EXPECT_EQ(Error(), ": no file matches " + dataset_.path);
}

TEST_F(DatasetFilesTest, AFileWithStarsInItsNameIsThatFile) {
  Files({"a[1].jsonl", "a1.jsonl"});
  dataset_.path = scratch_.path() + "/a[1].jsonl";
  EXPECT_EQ(List(), Names{"a[1].jsonl"});
}

TEST_F(DatasetFilesTest, DataFilesAreReadInTheirOrderAndOnce) {
  Files({"1.jsonl", "2.jsonl", "below/3.csv"});
  dataset_.data_files = {"2.jsonl", "*.jsonl", "below/3.csv"};
  EXPECT_EQ(List(), (Names{"2.jsonl", "1.jsonl", "below/3.csv"}));
  dataset_.data_files = {"*.parquet"};
  EXPECT_TRUE(Has(Error(), ": no file matches "));
  for (const char* outside : {"../1.jsonl", "/1.jsonl", "", "a/../../b"}) {
    dataset_.data_files = {outside};
    EXPECT_TRUE(Has(Error(), "in data_files is no name below")) << outside;
  }
  dataset_.path += "/1.jsonl";
  EXPECT_TRUE(Has(Error(), " is no folder"));
}

TEST_F(DatasetFilesTest, RefusesFoldersThatAreNoDataset) {
  Files({"README.md", "main/a.jsonl", "socratic/a.jsonl"});
  EXPECT_TRUE(Has(Error(), "without data files"));
  EXPECT_TRUE(Has(Error(), "give one of its folders as path: main, socratic"));
  Files({"a.parquet", "a.csv"});
  EXPECT_TRUE(Has(Error(), "holds data of two kinds, CSV (a.csv) and Parquet (a.parquet)"));
}

TEST_F(DatasetFilesTest, ASplitOfAFileIsRefused) {
  Files({"a.jsonl"});
  dataset_.path += "/a.jsonl";
  dataset_.split = "train";
  EXPECT_TRUE(Has(Error(), "split is of a folder"));
}

TEST_F(DatasetFilesTest, RecordsRunOnOverFilesUpToMaxSamples) {
  Files({"a.jsonl"}, "{1}\n{2}\n");
  Files({"b.jsonl"}, "");
  Files({"c.jsonl"}, "\n{3}\n{4}\n");
  dataset_.max_samples = 3;
  auto reader = DatasetReader::Open(dataset_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  Names records;
  RawRecord raw;
  while ((*reader)->Next(&raw).value()) {
    records.push_back(fs::path(raw.path).filename().string() + ":" + std::to_string(raw.line) +
                      std::string(raw.json));
  }
  EXPECT_EQ(records, (Names{"a.jsonl:1{1}", "a.jsonl:2{2}", "c.jsonl:2{3}"}));
  EXPECT_EQ(*DatasetBytes(dataset_), 8 + 0 + 9);
}

}  // namespace
}  // namespace coxswain::data
