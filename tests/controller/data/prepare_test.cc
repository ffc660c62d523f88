#include "controller/data/prepare.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include "tests/controller/data/byte_tokenizer.h"
#include "tests/controller/data/scratch_dir.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

using config::DatasetFormat;
using config::ExcessLength;
using config::OnBadRecord;

// A job over one completion dataset, with the byte tokenizer.
class PrepareTest : public testing::Test {
 protected:
  PrepareTest() {
    fs::create_directory(scratch_.path() + "/model");
    job_.model_path = scratch_.path() + "/model";
    WriteByteTokenizer(job_.model_path);
    options_.cache_dir = scratch_.path() + "/cache";
    options_.threads = 3;
  }

  void Dataset(DatasetFormat format, const std::string& contents) {
    config::DatasetSpec dataset;
    dataset.format = format;
    dataset.path =
        scratch_.Write("data" + std::to_string(job_.datasets.size()) + ".jsonl", contents);
    job_.datasets.push_back(dataset);
  }

  absl::StatusOr<PreparedData> Prepare() { return PrepareData(job_, options_); }

  std::string ErrorOf() {
    auto data = Prepare();
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(data.status().message());
  }

  // The documents' texts, in order.
  static std::vector<std::string> Texts(const TokenStore& store) {
    std::vector<std::string> texts;
    for (int64_t d = 0; d < store.num_documents(); ++d) {
      std::string text;
      for (int32_t id : store.tokens(d)) {
        text += id == 256 ? " H" : id > 256 ? "$" : std::string(1, static_cast<char>(id));
      }
      texts.push_back(text);
    }
    return texts;
  }

  ScratchDir scratch_;
  config::JobSpec job_;
  PrepareOptions options_;
};

std::string Numbered(int n) {
  std::string lines;
  for (int i = 0; i < n; ++i) lines += "{\"text\": \"r" + std::to_string(i) + "\"}\n";
  return lines;
}

TEST_F(PrepareTest, WritesDocumentsInOrderWithTargetsAndStatistics) {
  Dataset(DatasetFormat::kAlpaca,
          "{\"instruction\": \"Add\", \"input\": \"1 1\", \"output\": \"2\"}\n"
          "{\"instruction\": \"Say\", \"output\": \"Hi\"}\n");
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  const TokenStore& store = *data->train;
  ASSERT_EQ(store.num_documents(), 2);
  EXPECT_EQ(Texts(store)[1].substr(Texts(store)[1].size() - 17), "### Response:\nHi$");
  EXPECT_EQ(store.targets(0), 2);
  EXPECT_EQ(store.targets(1), 3);
  EXPECT_EQ(data->eval, nullptr);
  EXPECT_EQ(data->train_stats.records_read, 2);
  EXPECT_EQ(data->train_stats.documents, 2);
  EXPECT_EQ(data->train_stats.targets, 5);
  EXPECT_EQ(data->train_stats.tokens, store.length(0) + store.length(1));
  EXPECT_EQ(data->train_stats.longest_document, store.length(0));
  EXPECT_EQ(data->content_hash.size(), 64u);
  EXPECT_TRUE(data->warnings.empty());
}

// Invariant data-9.
TEST_F(PrepareTest, SecondRunIsACacheHit) {
  Dataset(DatasetFormat::kCompletion, Numbered(1000));
  auto first = Prepare();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto written = fs::last_write_time(first->train->path());
  auto second = Prepare();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->content_hash, first->content_hash);
  EXPECT_EQ(fs::last_write_time(second->train->path()), written);
  EXPECT_EQ(second->train_stats.records_read, 1000);
  EXPECT_EQ(Texts(*second->train), Texts(*first->train));
}

}  // namespace
}  // namespace coxswain::data
