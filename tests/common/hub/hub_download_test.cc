#include "common/hub/download.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/hub/cache/kept_listing.h"
#include "common/hub/cache/repository_cache.h"
#include "tests/common/hub/hub_fixture.h"
#include "tests/support/eventually.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using support::HubBehaviour;
using support::ReadFile;

constexpr int64_t kWanted = 2 + 70'000 + SmallHub::kWeightBytes;  // bytes of the tiny model

bool FailedWith(const absl::Status& status, const std::string& text) {
  return status.ToString().find(text) != std::string::npos;
}

class HubDownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    hub_.PutModel();
    hub_.Start();
  }
  absl::StatusOr<Snapshot> Pull(const DownloadOptions& options = {}) {
    return PullAs(hub_.settings(), options);
  }
  static absl::StatusOr<Snapshot> PullAs(const Settings& settings,
                                         const DownloadOptions& options = {},
                                         const Repository& repository = Model()) {
    const auto resolved = ResolveCommit(settings, repository);
    if (!resolved.ok()) return resolved.status();
    return Download(settings, repository, resolved->commit, options);
  }
  void Change(const std::function<void(HubBehaviour*)>& change) { hub_.server().Change(change); }
  int64_t Sent() const { return const_cast<SmallHub&>(hub_).server().counters().body_bytes; }
  std::string CacheFolder() const { return hub_.settings().cache + "/models--org--tiny"; }
  Settings Unreachable() const {
    Settings settings = hub_.settings();
    settings.endpoint = "http://127.0.0.1:1";
    return settings;
  }
  // What a download that is wanted again has left: no blob of these.
  static int Count(const fs::path& folder, const std::string& suffix) {
    int count = 0;
    if (!fs::exists(folder)) return 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      count += entry.path().string().ends_with(suffix) ? 1 : 0;
    }
    return count;
  }
  static void ExpectWhole(const absl::StatusOr<Snapshot>& snapshot) {
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ(ReadFile(snapshot->path + "/config.json"), "{}");
    EXPECT_EQ(ReadFile(snapshot->path + "/tokenizer.json"), Noise(70'000, 1));
    EXPECT_EQ(ReadFile(snapshot->path + "/model.safetensors"), Noise(SmallHub::kWeightBytes, 2));
  }

  SmallHub hub_;
};

TEST_F(HubDownloadTest, ASnapshotIsWhatTrainingNeeds) {
  const auto snapshot = Pull();
  ExpectWhole(snapshot);
  EXPECT_EQ(snapshot->commit, hub_.server().CommitOf("models/org/tiny"));
  EXPECT_EQ(snapshot->path, CacheFolder() + "/snapshots/" + snapshot->commit);
  EXPECT_EQ(snapshot->fetched_bytes, kWanted);
  EXPECT_EQ(Sent(), kWanted);
  EXPECT_EQ(Count(snapshot->path, ""), 3);
  EXPECT_EQ(ReadFile(CacheFolder() + "/refs/main"), snapshot->commit);
  EXPECT_EQ(Count(CacheFolder() + "/blobs", ""), 3) << "nothing but contents is left";
}

// Invariant hub-3.
TEST_F(HubDownloadTest, WhatIsThereIsNotFetchedAgain) {
  ExpectWhole(Pull());
  const support::HubCounters before = hub_.server().counters();
  const auto again = Pull();
  ExpectWhole(again);
  EXPECT_EQ(again->fetched_bytes, 0);
  EXPECT_EQ(hub_.server().counters().files, before.files);
  EXPECT_EQ(hub_.server().counters().api, before.api + 1) << "more than where main is now";
  // Another revision with the same contents has them too.
  fs::rename(CacheFolder() + "/snapshots/" + again->commit, CacheFolder() + "/snapshots/other");
  ExpectWhole(Pull());
  EXPECT_EQ(Sent(), kWanted);
}

TEST_F(HubDownloadTest, ProgressEndsWithEverything) {
  Progress last;
  int64_t before = 0;
  const auto snapshot = Pull({.progress = [&](const Progress& progress) {
    EXPECT_GE(progress.bytes, before);
    before = progress.bytes;
    last = progress;
  }});
  ExpectWhole(snapshot);
  EXPECT_EQ(last.bytes, kWanted);
  EXPECT_EQ(last.bytes_total, kWanted);
  EXPECT_EQ(last.files, 3);
  EXPECT_EQ(last.files_total, 3);
  EXPECT_FALSE(last.waits);
}

// Invariant hub-4.
TEST_F(HubDownloadTest, ADownloadThatStoppedGoesOn) {
  Change([](HubBehaviour* hub) { hub->hold_after = 400'000; });
  int64_t came = 0;
  const auto stopped = Pull({.cancelled = [&] { return came >= 400'000; },
                             .progress = [&](const Progress& p) { came = p.bytes; }});
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  EXPECT_FALSE(fs::exists(CacheFolder() + "/refs/main")) << "noted before it was complete";
  Change([](HubBehaviour* hub) { hub->hold_after = -1; });
  const auto rest = Pull();
  ExpectWhole(rest);
  EXPECT_LE(rest->fetched_bytes, kWanted - 400'000);
  EXPECT_GT(rest->fetched_bytes, 0);
}

TEST_F(HubDownloadTest, WhatPassesIsNotSeen) {
  for (const int status : {500, 503, 429}) {
    Change([&](HubBehaviour* hub) {
      hub->status = status;
      hub->fail_files = 2;
      hub->fail_cdn = 3;
      hub->cut = 3;
      hub->cut_after = 10'000;
    });
    ExpectWhole(Pull());
    fs::remove_all(hub_.settings().cache);
  }
}

TEST_F(HubDownloadTest, AServerThatFailsForGoodIsNamedAndNothingIsLost) {
  Change([](HubBehaviour* hub) {
    hub->cut = 1000;
    hub->cut_after = 0;
  });
  const absl::Status status = Pull().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(FailedWith(status, "of model org/tiny")) << status;
  EXPECT_TRUE(FailedWith(status, "127.0.0.1")) << status;
  EXPECT_FALSE(FailedWith(status, "s3cr3t")) << status;
  Change([](HubBehaviour* hub) { hub->cut = 0; });
  ExpectWhole(Pull());
}

// Invariant hub-5.
TEST_F(HubDownloadTest, AByteThatIsWrongIsFound) {
  Change([](HubBehaviour* hub) { hub->damage = 1; });
  ExpectWhole(Pull());
  fs::remove_all(hub_.settings().cache);
  Change([](HubBehaviour* hub) { hub->damage = 1000; });
  const absl::Status status = Pull().status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(FailedWith(status, "came twice with the hash")) << status;
  EXPECT_FALSE(fs::exists(CacheFolder() + "/refs/main"));
  Change([](HubBehaviour* hub) { hub->damage = 0; });
  ExpectWhole(Pull());
}

TEST_F(HubDownloadTest, AContentOfTheWrongSizeIsReplaced) {
  const auto snapshot = Pull();
  const fs::path blob = fs::canonical(snapshot->path + "/tokenizer.json");
  fs::resize_file(blob, 69'999);
  ExpectWhole(Pull());
  EXPECT_EQ(Sent(), kWanted + 70'000);
}

TEST_F(HubDownloadTest, AFileThatIsLongerInTheListIsNoFile) {
  const std::string commit = hub_.server().CommitOf("models/org/tiny");
  std::vector<HubFile> files = *AskFiles(hub_.settings(), Model(), commit);
  for (HubFile& file : files) ++file.bytes;
  const RepositoryCache cache(hub_.settings().cache, Model());
  ASSERT_TRUE(KeepListing(cache, commit, files).ok());
  const absl::Status status = Pull().status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(Holds(status, "of model org/tiny, which has")) << status;
  Change([](HubBehaviour* hub) { hub->no_ranges = true; });
  const absl::Status early = Pull({.include = {"config.json"}}).status();
  EXPECT_EQ(early.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Holds(early, "ended early 4 times")) << early;
}

TEST_F(HubDownloadTest, AServerWithoutRangesGivesWholeFiles) {
  Change([](HubBehaviour* hub) { hub->no_ranges = true; });
  ExpectWhole(Pull());
}

TEST_F(HubDownloadTest, XetFilesComeByTheirPlainWay) {
  Change([](HubBehaviour* hub) { hub->xet = true; });
  ExpectWhole(Pull());
}

TEST_F(HubDownloadTest, ASignedAddressThatExpiredIsAskedForAgain) {
  Settings settings = hub_.settings();
  settings.limits.connections = 1;
  std::atomic<int> expired{0};
  const auto snapshot = PullAs(settings, {.cancelled = [&] {
                                 // Between two pieces of the weights.
                                 if (Sent() > 100'000 && expired.exchange(1) == 0) {
                                   Change([](HubBehaviour* hub) {
                                     hub->status = 403;
                                     hub->fail_cdn = 1;
                                   });
                                 }
                                 return false;
                               }});
  ExpectWhole(snapshot);
  EXPECT_EQ(expired, 1);
}

TEST_F(HubDownloadTest, RefusalsAreSentences) {
  Change([](HubBehaviour* hub) { hub->gated = true; });
  const absl::Status gated = Pull().status();
  EXPECT_EQ(gated.code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(FailedWith(gated, "accept the conditions at")) << gated;
  EXPECT_EQ(PullAs(hub_.settings(), {}, Model("org/tiny", "v9")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(HubDownloadTest, OfflineItIsWhatTheCacheHolds) {
  Settings offline = hub_.settings();
  offline.offline = true;
  const absl::Status nothing = PullAs(offline).status();
  EXPECT_EQ(nothing.code(), StatusCode::kNotFound);
  EXPECT_TRUE(FailedWith(nothing, "HF_HUB_OFFLINE")) << nothing;
  ExpectWhole(Pull());
  const int asked = hub_.server().counters().api;
  ExpectWhole(PullAs(offline));
  EXPECT_EQ(hub_.server().counters().api, asked);
  ExpectWhole(PullAs(Unreachable()));
  EXPECT_FALSE(ResolveCommit(Unreachable(), Model())->from_cache.ok());

  fs::remove(PullAs(offline)->path + "/tokenizer.json");
  const absl::Status missing = PullAs(offline).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_TRUE(FailedWith(missing, "not tokenizer.json of model org/tiny at main")) << missing;
  EXPECT_TRUE(FailedWith(missing, "cox pull org/tiny")) << missing;
}

TEST_F(HubDownloadTest, ASnapshotWithoutAListingIsWhatIsThere) {
  const std::string commit = Pull()->commit;
  fs::remove_all(CacheFolder() + "/coxswain");
  const auto found = FindSnapshot(hub_.settings(), Model(), commit, {});
  ExpectWhole(found);
  EXPECT_EQ(found->files.size(), 3u);
  ExpectWhole(PullAs(Unreachable()));
  std::ofstream(found->path + "/model.safetensors.index.json")
      << R"({"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}})";
  const absl::Status part = FindSnapshot(hub_.settings(), Model(), commit, {}).status();
  EXPECT_EQ(part.code(), StatusCode::kNotFound);
  EXPECT_TRUE(FailedWith(part, "model-2.safetensors")) << part;
  EXPECT_FALSE(FindSnapshot(hub_.settings(), Model(), std::string(40, 'a'), {}).ok());
}

// Invariant hub-3.
TEST_F(HubDownloadTest, TwoAtOnceDownloadOnce) {
  Change([](HubBehaviour* hub) { hub->hold_after = 200'000; });
  std::atomic<int> running{0};
  const auto pull = [&] {
    bool begins = true;
    return Pull({.progress = [&](const Progress& /*progress*/) {
      if (std::exchange(begins, false)) ++running;
    }});
  };
  absl::StatusOr<Snapshot> other;
  std::thread thread([&] { other = pull(); });
  std::thread opener([&] {
    EXPECT_TRUE(support::Eventually([&] { return running == 2 && Sent() >= 200'000; }));
    Change([](HubBehaviour* hub) { hub->hold_after = -1; });
  });
  const auto own = pull();
  thread.join();
  opener.join();
  ExpectWhole(own);
  ExpectWhole(other);
  EXPECT_EQ(Sent(), kWanted);
  EXPECT_EQ(own->fetched_bytes + other->fetched_bytes, kWanted);
}

TEST_F(HubDownloadTest, ADatasetComesWholeOrByPatternsAndEachContentOnce) {
  hub_.Put("datasets/org/data", "data/train.parquet", Noise(100'000, 5));
  hub_.Put("datasets/org/data", "data/copy.parquet", Noise(100'000, 5));
  hub_.Put("datasets/org/data", "README.md", "");
  hub_.server().Load();
  const Repository data = *MakeRepository(RepositoryType::kDataset, "org/data");
  const auto readme = PullAs(hub_.settings(), {.include = {"*.md"}}, data);
  ASSERT_TRUE(readme.ok()) << readme.status();
  EXPECT_EQ(readme->files.size(), 1u);
  EXPECT_EQ(fs::file_size(readme->path + "/README.md"), 0u);
  const auto all = PullAs(hub_.settings(), {}, data);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->path, readme->path);
  EXPECT_EQ(ReadFile(all->path + "/data/train.parquet"), Noise(100'000, 5));
  EXPECT_EQ(ReadFile(all->path + "/data/copy.parquet"), Noise(100'000, 5));
  EXPECT_EQ(Sent(), 100'000);
  EXPECT_TRUE(fs::exists(hub_.settings().cache + "/datasets--org--data/refs/main"));
}

// Invariant hub-6.
TEST_F(HubDownloadTest, APathThatLeadsAwayWritesNothing) {
  Change([](HubBehaviour* hub) { hub->path = "../../../../escaped"; });
  EXPECT_EQ(Pull().status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(hub_.settings().cache));
}

TEST_F(HubDownloadTest, ModesAreThoseOfTheUmask) {
  const mode_t before = umask(027);
  const auto snapshot = Pull();
  umask(before);
  ExpectWhole(snapshot);
  struct stat blob {
  }, folder{}, ref{};
  ASSERT_EQ(stat((snapshot->path + "/model.safetensors").c_str(), &blob), 0);
  ASSERT_EQ(stat(snapshot->path.c_str(), &folder), 0);
  ASSERT_EQ(stat((CacheFolder() + "/refs/main").c_str(), &ref), 0);
  EXPECT_EQ(blob.st_mode & 0777, 0640u);
  EXPECT_EQ(folder.st_mode & 0777, 0750u);
  EXPECT_EQ(ref.st_mode & 0777, 0640u);
}

}  // namespace
}  // namespace coxswain::hub
