#include "controller/data/sources/dataset_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include "controller/data/sources/dataset_reader.h"
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

TEST_F(DatasetFilesTest, AFileIsTheSplitTrain) {
  Files({"a.jsonl"});
  dataset_.path += "/a.jsonl";
  for (const char* split : {"train", "train[:5]", "all"}) {
    dataset_.split = split;
    EXPECT_EQ(List(), Names{"a.jsonl"}) << split;
  }
  dataset_.split = "test";
  EXPECT_EQ(Error(), " is a file, which is split train, and split \"test\" was asked for");
}

TEST_F(DatasetFilesTest, NamedFilesAreTheSplitTrain) {
  Files({"a.jsonl", "test.jsonl"});
  dataset_.data_files = {"test.jsonl", "a.jsonl"};
  dataset_.split = "train[:5]";
  EXPECT_EQ(List(), (Names{"test.jsonl", "a.jsonl"}));
  dataset_.split = "test";
  EXPECT_EQ(List(), Names{"test.jsonl"});
  dataset_.split = "dev";
  EXPECT_TRUE(Has(Error(), " has no file of split \"dev\""));
}

TEST_F(DatasetFilesTest, ASplitExpressionTakesPartsInItsOrder) {
  Files({"train/1.jsonl", "train/2.jsonl", "test/3.jsonl", "dev/4.jsonl"});
  dataset_.split = "test[:50%]+train";
  EXPECT_EQ(List(), (Names{"test/3.jsonl", "train/1.jsonl", "train/2.jsonl"}));
  const DatasetFiles files = *ListDatasetFiles(dataset_);
  ASSERT_EQ(files.parts.size(), 2u);
  EXPECT_EQ(files.parts[0].files, 1u);
  EXPECT_EQ(SplitText(files.parts[0].rows), "test[:50%]");
  EXPECT_TRUE(files.parts[1].rows.whole());
  dataset_.split = "train[:50%]+nowhere";
  EXPECT_TRUE(Has(Error(), " has no file of split \"nowhere\""));
  dataset_.split = "train[";
  EXPECT_TRUE(Has(Error(), ": split \"train[\" is not of the form"));
}

// A split begins with its name, whatever stands behind it: this is no expression.
TEST_F(DatasetFilesTest, ASplitMayBeAnyBeginning) {
  Files({"my-part.jsonl", "other.jsonl"});
  dataset_.split = "my-part";
  EXPECT_EQ(List(), Names{"my-part.jsonl"});
}

TEST_F(DatasetFilesTest, SlicesCountRecordsOverFiles) {
  Files({"train-1.jsonl"}, "{0}\n{1}\n{2}\n");
  Files({"train-2.jsonl"}, "");
  Files({"train-3.jsonl"}, "{3}\n{4}\n");
  Files({"test.jsonl"}, "{5}\n{6}\n");
  const auto records = [this](const std::string& split) {
    dataset_.split = split;
    std::string text;
    auto reader = DatasetReader::Open(dataset_);
    if (!reader.ok()) return std::string(reader.status().message());
    RawRecord raw;
    while (true) {
      const auto any = (*reader)->Next(&raw);
      if (!any.ok()) return std::string(any.status().message());
      if (!*any) break;
      text += raw.json;
    }
    EXPECT_LE((*reader)->consumed_bytes(), *DatasetBytes(dataset_)) << split;
    if (split == "train[:1]+test") {
      EXPECT_EQ((*reader)->consumed_bytes(), 12 + 8 + 8);
    }
    return text;
  };
  EXPECT_EQ(records("train"), "{0}{1}{2}{3}{4}");
  EXPECT_EQ(records("train[2:4]"), "{2}{3}");
  EXPECT_EQ(records("train[3:]"), "{3}{4}");
  EXPECT_EQ(records("train[:99]"), "{0}{1}{2}{3}{4}");
  EXPECT_EQ(records("train[-2:]"), "{3}{4}");
  EXPECT_EQ(records("train[:-4]"), "{0}");
  EXPECT_EQ(records("train[:50%]"), "{0}{1}");  // 2.5 rounds to 2
  EXPECT_EQ(records("test[1:]+train[:1]+test[:1]"), "{6}{0}{5}");
  EXPECT_EQ(records("train[:1]+test"), "{0}{5}{6}");
  EXPECT_EQ(records("all"), "{5}{6}{0}{1}{2}{3}{4}");
  EXPECT_TRUE(Has(records("train[5:]"), "begins behind its records"));
  EXPECT_TRUE(Has(records("test+train[7:9]"), "begins behind its records"));
  EXPECT_TRUE(Has(records("train[:1%]"), "selects none of 5 records"));
  dataset_.max_samples = 2;
  dataset_.split = "train[1:]";
  auto reader = DatasetReader::Open(dataset_);
  RawRecord raw;
  EXPECT_TRUE((*reader)->Next(&raw).value() && (*reader)->Next(&raw).value());
  EXPECT_EQ(raw.json, "{2}");
  EXPECT_FALSE((*reader)->Next(&raw).value());
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
