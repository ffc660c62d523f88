#include "controller/data/prepare/prepare.h"
#include "tests/common/config/default_spec.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/faults/fault_point.h"
#include "controller/data/early_end.h"
#include "tests/controller/text/tokenizer/byte_tokenizer.h"
#include "tests/support/scratch_folder.h"

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
    config::DatasetSpec dataset = config::DefaultDataset();
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

  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
  PrepareOptions options_;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

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

TEST_F(PrepareTest, OrderAndTokensDoNotDependOnThreads) {
  Dataset(DatasetFormat::kCompletion, Numbered(30000));
  options_.threads = 1;
  auto one = Prepare();
  ASSERT_TRUE(one.ok()) << one.status();
  options_.threads = 7;
  options_.cache_dir += "2";
  auto seven = Prepare();
  ASSERT_TRUE(seven.ok());
  EXPECT_EQ(Texts(*one->train), Texts(*seven->train));
  EXPECT_EQ(one->content_hash, seven->content_hash);
}

// Invariant data-9: whatever changes tokens or masks changes the hash; names of files do not.
TEST_F(PrepareTest, TheHashCoversContentsTokenizerAndOptions) {
  Dataset(DatasetFormat::kCompletion, Numbered(20));
  std::set<std::string> hashes;
  const auto add = [&] {
    auto data = Prepare();
    EXPECT_TRUE(data.ok()) << data.status();
    hashes.insert(data.ok() ? data->content_hash : "");
    return hashes.size();
  };
  EXPECT_EQ(add(), 1u);
  fs::rename(job_.datasets[0].path, job_.datasets[0].path + ".moved");
  job_.datasets[0].path += ".moved";
  EXPECT_EQ(add(), 1u);
  job_.sequence_len = 1024;
  EXPECT_EQ(add(), 2u);
  job_.train_on_inputs = true;
  EXPECT_EQ(add(), 3u);
  job_.train.seed = 6;  // draws nothing yet
  EXPECT_EQ(add(), 3u);
  job_.datasets[0].weight = 1.5;
  EXPECT_EQ(add(), 4u);
  job_.train.seed = 7;
  EXPECT_EQ(add(), 5u);
  job_.val_set_size = 3;
  EXPECT_EQ(add(), 6u);
  job_.excess_length = ExcessLength::kDrop;
  EXPECT_EQ(add(), 7u);
  std::ofstream(job_.datasets[0].path, std::ios::app) << "{\"text\": \"more\"}\n";
  EXPECT_EQ(add(), 8u);
  ByteTokenizerSpec other;
  other.special.push_back("<|more|>");
  WriteByteTokenizer(job_.model_path, other);
  EXPECT_EQ(add(), 9u);
}

// Invariant data-8.
TEST_F(PrepareTest, ADamagedCacheEntryIsRebuilt) {
  Dataset(DatasetFormat::kCompletion, Numbered(200));
  auto first = Prepare();
  ASSERT_TRUE(first.ok());
  const auto texts = Texts(*first->train);
  const std::string entry = options_.cache_dir + "/" + first->content_hash;
  const std::string store = first->train->path();
  const auto half = fs::file_size(store) / 2;
  for (const auto& damage : std::vector<std::function<void()>>{
           [&] { fs::resize_file(store, half); }, [&] { fs::resize_file(store, 0); },
           [&] { fs::remove(store); }, [&] { std::ofstream(entry + "/stats.json") << "{}"; },
           [&] { std::fstream(store, std::ios::in | std::ios::out).seekp(60).put('?'); }}) {
    damage();
    auto again = Prepare();
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(Texts(*again->train), texts);
    ASSERT_EQ(again->warnings.size(), 1u);
    EXPECT_TRUE(Contains(again->warnings[0], "rebuilt")) << again->warnings[0];
    EXPECT_TRUE(Prepare()->warnings.empty());
  }
}

TEST_F(PrepareTest, ReportsTheFirstBadRecordWithItsLine) {
  std::string lines = Numbered(5000) + "{\"text\": 1}\n" + Numbered(5000) + "nonsense\n";
  Dataset(DatasetFormat::kCompletion, lines);
  EXPECT_EQ(ErrorOf(), job_.datasets[0].path + ":5001: field \"text\" is a number, not a string");
  EXPECT_EQ(std::distance(fs::directory_iterator(options_.cache_dir), {}), 1);  // the lock
}

TEST_F(PrepareTest, ReportsBadRecordsOfAnArrayWhereTheyStart) {
  Dataset(DatasetFormat::kCompletion, "[\n{\"text\": \"a\"},\n{\"text\":\n tru}\n]");
  EXPECT_TRUE(ErrorOf().starts_with(job_.datasets[0].path + ":3: bad JSON"));
}

TEST_F(PrepareTest, SkipsAndCountsBadRecordsWhenAsked) {
  job_.on_bad_record = OnBadRecord::kSkip;
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"a\"}\nnonsense\n\n{}\n{\"text\": \"b\"}\r\n");
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(Texts(*data->train), (std::vector<std::string>{"a$", "b$"}));
  EXPECT_EQ(data->train_stats.records_read, 4);
  EXPECT_EQ(data->train_stats.bad_records, 2);
  ASSERT_EQ(data->warnings.size(), 1u);
  EXPECT_EQ(data->warnings[0], "train: 2 of 4 records were skipped: bad records; such records: " +
                                   job_.datasets[0].path + ":2, 4");
}

// A part names the records of its own sources; of one that is split into both, those of both.
TEST_F(PrepareTest, NamesTheBadRecordsOfEachPart) {
  job_.on_bad_record = OnBadRecord::kSkip;
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"a\"}\nnonsense\n");
  Dataset(DatasetFormat::kCompletion, "bad\n{\"text\": \"b\"}\n");
  job_.test_datasets = {job_.datasets.back()};
  job_.test_datasets[0].held_out = true;
  job_.datasets.pop_back();
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  const std::string lost = ": 1 of 2 records were skipped: bad records; such records: ";
  EXPECT_EQ(data->warnings,
            (std::vector<std::string>{"train" + lost + job_.datasets[0].path + ":2",
                                      "eval" + lost + job_.test_datasets[0].path + ":1"}));

  job_.test_datasets.clear();
  job_.datasets.clear();
  job_.val_set_size = 4;
  Dataset(DatasetFormat::kCompletion, Numbered(40) + "nonsense\n");
  data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->warnings.size(), 1u);
  EXPECT_TRUE(Contains(data->warnings[0], "such records of both parts: ")) << data->warnings[0];
}

TEST_F(PrepareTest, SkippingDoesNotCoverABrokenArray) {
  job_.on_bad_record = OnBadRecord::kSkip;
  Dataset(DatasetFormat::kCompletion, "[{\"text\": \"a\"},\n{\"text\": \"b\"");
  EXPECT_TRUE(Contains(ErrorOf(), ":2: the record that starts here never ends"));
}

TEST_F(PrepareTest, RefusesDatasetsWithNothingToTrainOn) {
  Dataset(DatasetFormat::kCompletion, "\n");
  EXPECT_TRUE(Contains(ErrorOf(), "has no records"));

  job_.datasets.clear();
  Dataset(DatasetFormat::kChat, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n");
  EXPECT_TRUE(Contains(ErrorOf(), "no trainable token: of 1 records 0 were bad, 0 above"))
      << ErrorOf();
  EXPECT_TRUE(Contains(ErrorOf(), "and 1 had no target"));

  job_.on_bad_record = OnBadRecord::kSkip;
  job_.datasets.clear();
  Dataset(DatasetFormat::kCompletion, "{\n\"text\":\"a\"\n}\n");
  EXPECT_TRUE(Contains(ErrorOf(), "of 3 records 3 were bad"));
}

TEST_F(PrepareTest, RefusesOneEmptyDatasetAmongGoodOnes) {
  Dataset(DatasetFormat::kCompletion, Numbered(5));
  Dataset(DatasetFormat::kChat, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n");
  EXPECT_TRUE(Contains(ErrorOf(), job_.datasets[1].path + " has no trainable token"));
}

TEST_F(PrepareTest, AppliesTheLengthPolicyAndCounts) {
  job_.sequence_len = 4;
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"abcdef\"}\n{\"text\": \"ab\"}\n");
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(Texts(*data->train), (std::vector<std::string>{"abcd", "ab$"}));
  EXPECT_EQ(data->train_stats.truncated, 1);
  job_.excess_length = ExcessLength::kDrop;
  data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(Texts(*data->train), (std::vector<std::string>{"ab$"}));
  EXPECT_EQ(data->train_stats.dropped_too_long, 1);
  EXPECT_EQ(data->warnings.size(), 1u);
  job_.excess_length = ExcessLength::kError;
  job_.on_bad_record = OnBadRecord::kSkip;  // does not cover documents that are good but long
  EXPECT_TRUE(Contains(ErrorOf(), ":1: the document has 7 tokens, above sequence_len 4"));
}

TEST_F(PrepareTest, SplitKeepsAllTokensOfLongDocumentsAndCountsThem) {
  job_.sequence_len = 4;
  job_.excess_length = ExcessLength::kSplit;
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"abcdefg\"}\n{\"text\": \"ab\"}\n");
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"uvwxy\"}\n");
  job_.datasets[1].weight = 2;
  for (int run = 0; run < 2; ++run) {  // the second from the cache
    auto data = Prepare();
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(Texts(*data->train),
              (std::vector<std::string>{"abcd", "efg$", "ab$", "uvwx", "uvwx", "y$", "y$"}));
    EXPECT_EQ(data->train_stats.split, 2);
    EXPECT_EQ(data->train_stats.documents, 7);
    EXPECT_EQ(data->train_stats.truncated, 0);
    EXPECT_TRUE(data->warnings.empty());
  }
}

TEST_F(PrepareTest, PiecesWithoutATargetAreCountedAsPieces) {
  job_.sequence_len = 12;
  job_.excess_length = ExcessLength::kSplit;
  Dataset(DatasetFormat::kChat,
          "{\"messages\": [{\"role\": \"user\", \"content\": \"Q\"}, "
          "{\"role\": \"assistant\", \"content\": \"answer\"}]}\n");
  const auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train_stats.no_target, 1);
  EXPECT_EQ(data->train_stats.documents, 2);
  EXPECT_EQ(data->warnings.back(),
            "train: 1 documents or pieces of split ones were dropped: no trainable token");
}

// Entries of a release that split nothing have no such count.
TEST_F(PrepareTest, ACacheEntryWithoutTheCountOfSplitDocumentsIsRead) {
  Dataset(DatasetFormat::kCompletion, Numbered(3));
  ASSERT_TRUE(Prepare().ok());
  std::string path;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch_.path())) {
    if (entry.path().filename() == "stats.json") path = entry.path();
  }
  auto stats = nlohmann::json::parse(std::ifstream(path));
  ASSERT_EQ(stats["train"].erase("split"), 1u);
  std::ofstream(path) << stats.dump();
  const auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(data->warnings.empty());
}

TEST_F(PrepareTest, WeightsAreCopies) {
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"a\"}\n");
  Dataset(DatasetFormat::kCompletion, Numbered(1000));
  job_.datasets[0].weight = 3;
  job_.datasets[1].weight = 0.5;
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  const auto texts = Texts(*data->train);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "a$"), 3);
  EXPECT_NEAR(static_cast<double>(texts.size()), 503, 5 * std::sqrt(1000 * 0.25));
  EXPECT_EQ(data->train_stats.records_read, 1001);
  EXPECT_EQ(data->train_stats.documents, static_cast<int64_t>(texts.size()));
}

// Invariant data-11: held-back records are chosen before packing, by seed and index, once.
TEST_F(PrepareTest, HoldsBackRecordsOnceAndTheSameOnesEachTime) {
  Dataset(DatasetFormat::kCompletion, Numbered(300));
  job_.datasets[0].weight = 2;
  job_.val_set_size = 40;
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_NE(data->eval, nullptr);
  const auto eval = Texts(*data->eval), train = Texts(*data->train);
  EXPECT_EQ(eval.size(), 40u);
  EXPECT_EQ(train.size(), 520u);
  const std::set<std::string> held_back(eval.begin(), eval.end());
  EXPECT_EQ(held_back.size(), 40u);
  for (const std::string& text : train) EXPECT_FALSE(held_back.contains(text)) << text;

  job_.sequence_len = 512;  // another entry of the cache, the same split
  EXPECT_EQ(Texts(*Prepare()->eval), eval);
  job_.train.seed = 43;
  EXPECT_NE(Texts(*Prepare()->eval), eval);
}

TEST_F(PrepareTest, TestDatasetsBecomeTheEvaluationSet) {
  Dataset(DatasetFormat::kCompletion, Numbered(10));
  Dataset(DatasetFormat::kCompletion, "{\"text\": \"held\"}\n");
  job_.test_datasets = {job_.datasets[1]};
  job_.datasets.pop_back();
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_NE(data->eval, nullptr);
  EXPECT_EQ(Texts(*data->eval), std::vector<std::string>{"held$"});
  EXPECT_EQ(data->eval_stats.records_read, 1);
  EXPECT_EQ(data->train_stats.records_read, 10);
  EXPECT_EQ(Prepare()->eval_stats.targets, 4);  // from the cache
}

TEST_F(PrepareTest, RefusesASplitThatLeavesNothing) {
  Dataset(DatasetFormat::kCompletion, Numbered(3));
  job_.val_set_size = 1e-9;
  EXPECT_TRUE(Contains(ErrorOf(), "the evaluation set has no trainable token"));
  job_.val_set_size = 3;
  EXPECT_TRUE(Contains(ErrorOf(), "leaves nothing of 3 records"));
}

TEST_F(PrepareTest, ReportsProgressAndCanBeCancelled) {
  Dataset(DatasetFormat::kCompletion, Numbered(50000));
  double last = 0;
  options_.progress = [&](double fraction) {
    EXPECT_GE(fraction, last);
    last = fraction;
  };
  ASSERT_TRUE(Prepare().ok());
  EXPECT_DOUBLE_EQ(last, 1.0);
  last = 0;
  job_.sequence_len = 100;
  options_.cancelled = [&] { return last > 0; };
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(last, 1.0);
  options_.cancelled = nullptr;
  last = 0;
  EXPECT_TRUE(Prepare().ok());
}

// Hashing, counting for the split, every batch, reading back: each asks, and the next run is whole.
TEST_F(PrepareTest, StopsWhereverItIsCancelled) {
  Dataset(DatasetFormat::kCompletion, Numbered(20000));
  job_.val_set_size = 10;
  int asked = 0, allowed = 0;
  options_.cancelled = [&] { return ++asked > allowed; };
  EXPECT_EQ(Prepare().status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(fs::exists(options_.cache_dir)) << "it asks while it hashes the files";
  absl::Status status = absl::CancelledError("");
  while (absl::IsCancelled(status)) {
    ASSERT_LT(++allowed, 1000);
    asked = 0;
    status = Prepare().status();
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(allowed, 6);
  asked = 0;
  ASSERT_TRUE(Prepare().ok());
  EXPECT_GT(asked, 1) << "it asks while it reads what is in the cache";
}

TEST_F(PrepareTest, TwoAtOnceBuildOnce) {
  Dataset(DatasetFormat::kCompletion, Numbered(20000));
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { good += Prepare().ok(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 4);
  int directories = 0;
  for (const auto& entry : fs::directory_iterator(options_.cache_dir)) {
    directories += entry.is_directory();
  }
  EXPECT_EQ(directories, 1);
}

TEST_F(PrepareTest, RemovesWhatAnInterruptedBuildLeft) {
  Dataset(DatasetFormat::kCompletion, Numbered(10));
  auto data = Prepare();
  ASSERT_TRUE(data.ok());
  const std::string entry = options_.cache_dir + "/" + data->content_hash;
  fs::rename(entry, entry + ".building");
  std::ofstream(entry + ".building/train.tokens.index") << "half";
  ASSERT_TRUE(Prepare().ok());
  EXPECT_FALSE(fs::exists(entry + ".building"));
  EXPECT_FALSE(fs::exists(entry + "/train.tokens.index"));
}

TEST_F(PrepareTest, NamesWhatIsMissing) {
  Dataset(DatasetFormat::kCompletion, Numbered(3));
  const std::string path = job_.datasets[0].path;
  job_.datasets[0].path = scratch_.path() + "/none.jsonl";
  auto data = Prepare();
  EXPECT_EQ(data.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Contains(std::string(data.status().message()), "none.jsonl"));
  job_.datasets[0].path = path;
  options_.cache_dir = path + "/cache";  // below a file
  EXPECT_FALSE(Prepare().ok());
}

// A file-size limit stands in for a full disk.
TEST_F(PrepareTest, AFullDiskIsReportedAndLeavesNothing) {
  Dataset(DatasetFormat::kCompletion, Numbered(20000));
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 100000;
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto data = Prepare();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kResourceExhausted) << data.status();
  EXPECT_TRUE(Contains(std::string(data.status().message()), "train.tokens")) << data.status();
  EXPECT_TRUE(IsOfTokenCache(data.status()));
  EXPECT_EQ(std::distance(fs::directory_iterator(options_.cache_dir), {}), 1);  // the lock
  EXPECT_TRUE(Prepare().ok());
}

// The cache is the controller's: what fails there is told apart from what the user gave.
TEST_F(PrepareTest, FailuresOfTheCacheAreToldApart) {
  Dataset(DatasetFormat::kCompletion, Numbered(10));
  for (const char* fault : {"tokens.publish:enospc", "tokens.publish:error", "file.write:enospc",
                            "file.sync:error", "file.rename:enospc"}) {
    ASSERT_TRUE(fault::Arm(fault, fault::Process::kController).ok());
    EXPECT_TRUE(IsOfTokenCache(Prepare().status())) << fault;
    ASSERT_TRUE(fault::Arm("", fault::Process::kController).ok());
  }
  const std::string cache = options_.cache_dir;
  options_.cache_dir = scratch_.Write("file", "") + "/cache";
  EXPECT_TRUE(IsOfTokenCache(Prepare().status()));
  options_.cache_dir = cache;
  EXPECT_TRUE(Prepare().ok());
  job_.datasets[0].path += ".gone";
  const absl::Status gone = Prepare().status();
  EXPECT_FALSE(gone.ok());
  EXPECT_FALSE(IsOfTokenCache(gone));
}

constexpr char kPlainChatml[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}";

TEST_F(PrepareTest, WarnsWhenTheModelsOwnTemplateIsAnother) {
  const std::string chat =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, "
      "{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  Dataset(DatasetFormat::kChat, chat);
  ByteTokenizerSpec spec;
  const auto warnings = [&](const std::string& own) {
    spec.chat_template = own;
    WriteByteTokenizer(job_.model_path, spec);
    auto data = Prepare();
    EXPECT_TRUE(data.ok()) << data.status();
    return data->warnings;
  };
  EXPECT_TRUE(warnings("").empty());
  EXPECT_TRUE(warnings(kPlainChatml).empty());
  job_.chat_template = "chatml";
  EXPECT_TRUE(warnings(kPlainChatml).empty());
  ASSERT_EQ(warnings("{{ something else }}").size(), 1u);
  EXPECT_TRUE(Contains(warnings("{{ something else }}")[0], "nothing was compared"));
  job_.chat_template = "llama3";
  ASSERT_EQ(warnings(kPlainChatml).size(), 1u);
  EXPECT_TRUE(Contains(warnings(kPlainChatml)[0],
                       "llama3 renders 1 of the first 1 records differently from the model's own "
                       "template: \"<|begin_of_text|>"))
      << warnings(kPlainChatml)[0];
  EXPECT_TRUE(Contains(warnings(kPlainChatml)[0], "chat_template: tokenizer_default"));
}

TEST_F(PrepareTest, TellsOfTurnsThatTheTemplateWritesAnew) {
  ByteTokenizerSpec spec;
  spec.chat_template =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' "
      "%}<think>{% endif %}"
      "{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  WriteByteTokenizer(job_.model_path, spec);
  Dataset(DatasetFormat::kAuto,
          "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
          "\"content\": \"a\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": "
          "\"assistant\", \"content\": \"b\"}]}\n");
  auto data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train_stats.turns.as_said, 1);
  EXPECT_EQ(data->train_stats.turns.rewritten, 0);
  EXPECT_EQ(data->train_stats.split, 0);
  ASSERT_EQ(data->warnings.size(), 1u) << data->warnings[1];
  EXPECT_TRUE(Contains(data->warnings[0], "1 turns are trained as they were said"))
      << data->warnings[0];
  job_.train_on = config::TrainOn::kSplit;
  data = Prepare();
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train_stats.documents, 2);
  EXPECT_EQ(data->train_stats.split, 0);
  EXPECT_TRUE(data->warnings.empty());
}

TEST_F(PrepareTest, RefusesATokenizerWithoutTheTemplatesTokens) {
  ByteTokenizerSpec spec;
  spec.special = {"<|endoftext|>"};
  WriteByteTokenizer(job_.model_path, spec);
  Dataset(DatasetFormat::kChat, "{\"messages\": []}\n");
  EXPECT_TRUE(Contains(ErrorOf(), "chat_template chatml needs the token <|im_start|>"))
      << ErrorOf();
  EXPECT_TRUE(Contains(ErrorOf(), job_.model_path));
}

}  // namespace
}  // namespace coxswain::data
