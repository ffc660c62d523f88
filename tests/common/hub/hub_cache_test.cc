#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/files/hash.h"
#include "common/hub/cache/file_lock.h"
#include "common/hub/cache/kept_listing.h"
#include "common/hub/cache/partial_blob.h"
#include "common/hub/cache/repository_cache.h"
#include "tests/common/hub/hub_fixture.h"
#include "tests/support/hub_repositories.h"

namespace coxswain::hub {
namespace {

namespace fs = std::filesystem;
using support::ReadFile;
using support::ScratchFolder;

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

std::string Sha256Hex(const std::string& bytes) { return ToHex(Sha256(bytes)); }

// 10 bytes in pieces of 4.
class PartialBlobTest : public testing::Test {
 protected:
  std::unique_ptr<PartialBlob> Open(int64_t bytes = 10) {
    return *PartialBlob::Open(path_, etag_, bytes, 4);
  }
  // Digested and committed; the hash.
  static std::string Finish(PartialBlob* blob, const std::string& to) {
    while (*blob->Digest(3) > 0) {
    }
    EXPECT_TRUE(blob->whole());
    EXPECT_TRUE(blob->digested());
    EXPECT_TRUE(blob->Commit(to).ok());
    return blob->Hex();
  }

  const ScratchFolder folder_;
  const std::string content_ = "0123456789";
  const std::string etag_ = Sha256Hex(content_);
  const std::string path_ = folder_.path() + "/partial";
  const std::string blob_ = folder_.path() + "/blob";
};

TEST_F(PartialBlobTest, PiecesInAnyOrderAreTheContent) {
  const auto blob = Open();
  ASSERT_EQ(blob->pieces().size(), 3u);
  EXPECT_EQ(blob->pieces()[2].bytes, 2);
  ASSERT_TRUE(blob->Append(2, "89").ok());
  ASSERT_TRUE(blob->Append(0, "01").ok());
  ASSERT_TRUE(blob->Append(1, "4567").ok());
  EXPECT_EQ(*blob->Digest(100), 0) << "a hole is before the rest";
  ASSERT_TRUE(blob->Append(0, "23").ok());
  EXPECT_EQ(Finish(blob.get(), blob_), etag_);
  EXPECT_EQ(ReadFile(blob_), content_);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(PartialBlobTest, ItGoesOnWhereItStopped) {
  ASSERT_TRUE(Open()->Append(1, "456").ok());
  ASSERT_TRUE(Open()->Append(0, "0123").ok());
  const auto blob = Open();
  EXPECT_EQ(blob->done(), 7);
  EXPECT_EQ(blob->pieces()[1].done, 3);
  ASSERT_TRUE(blob->Append(1, "7").ok());
  ASSERT_TRUE(blob->Append(2, "89").ok());
  EXPECT_EQ(Finish(blob.get(), blob_), etag_);
  EXPECT_EQ(ReadFile(blob_), content_);
}

TEST_F(PartialBlobTest, WhatIsNoPartOfTheContentBeginsAnew) {
  ASSERT_TRUE(Open()->Append(0, "0123").ok());
  EXPECT_EQ(Open(12)->done(), 0) << "of another size";
  folder_.Write("partial", content_);
  EXPECT_EQ(Open()->done(), 0) << "without numbers";
  folder_.Write("partial", std::string(10, 'x') + "coxswain" + std::string(8 + 3 * 8, '\xFF'));
  EXPECT_EQ(Open()->done(), 0) << "with wrong numbers";
}

TEST_F(PartialBlobTest, APieceTakesNoMoreThanItHas) {
  const auto blob = Open();
  EXPECT_EQ(blob->Append(2, "89x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(blob->done(), 0);
}

TEST_F(PartialBlobTest, TheDigestOfGitCountsTheSize) {
  const std::string etag = support::GitBlobHash(content_);
  const auto blob = *PartialBlob::Open(path_, etag, 10, 100);
  ASSERT_TRUE(blob->Append(0, content_).ok());
  EXPECT_EQ(Finish(blob.get(), blob_), etag);
  EXPECT_EQ(support::GitBlobHash(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391") << "git's own";
  const auto empty = *PartialBlob::Open(path_, support::GitBlobHash(""), 0, 100);
  EXPECT_EQ(Finish(empty.get(), blob_), support::GitBlobHash(""));
  EXPECT_EQ(ReadFile(blob_), "");
}

TEST(FileLockTest, OneHoldsItUntilItEnds) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/.locks/models--a/etag.lock";
  auto first = *FileLock::TryTake(path);
  EXPECT_TRUE(first.has_value());
  EXPECT_FALSE(FileLock::TryTake(path)->has_value());
  first.reset();
  EXPECT_TRUE(FileLock::TryTake(path)->has_value());
  EXPECT_TRUE(fs::exists(path));
  struct stat made {};
  ASSERT_EQ(stat(path.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0664u);
}

class RepositoryCacheTest : public testing::Test {
 protected:
  HubFile Put(const std::string& path, const std::string& content) {
    const HubFile file{
        .path = path, .bytes = static_cast<int64_t>(content.size()), .etag = Sha256Hex(content)};
    EXPECT_TRUE(cache_.MakeFolders().ok());
    folder_.Write("models--org--tiny/blobs/" + file.etag, content);
    return file;
  }

  const ScratchFolder folder_;
  const RepositoryCache cache_{folder_.path(), Model()};
};

TEST_F(RepositoryCacheTest, AFileIsARelativeLinkToItsContent) {
  const HubFile file = Put("a/b/c.json", "content");
  EXPECT_TRUE(cache_.HasBlob(file));
  EXPECT_FALSE(cache_.HasFile(kCommit, file));
  ASSERT_TRUE(cache_.Link(kCommit, file).ok());
  EXPECT_TRUE(cache_.HasFile(kCommit, file));
  EXPECT_EQ(fs::read_symlink(cache_.File(kCommit, "a/b/c.json")), "../../../../blobs/" + file.etag);
  EXPECT_EQ(cache_.Files(kCommit), std::vector<std::string>{"a/b/c.json"});
  EXPECT_EQ(ReadFile(cache_.Snapshot(kCommit) + "/a/b/c.json"), "content");
}

TEST_F(RepositoryCacheTest, ALinkToNothingIsReplacedAndNoFile) {
  const HubFile file = Put("a", "content");
  fs::create_directories(cache_.Snapshot(kCommit));
  fs::create_symlink("../../blobs/gone", cache_.File(kCommit, "a"));
  EXPECT_FALSE(cache_.HasFile(kCommit, file));
  EXPECT_TRUE(cache_.Files(kCommit).empty());
  ASSERT_TRUE(cache_.Link(kCommit, file).ok());
  EXPECT_TRUE(cache_.HasFile(kCommit, file));
}

TEST_F(RepositoryCacheTest, AnotherSizeIsAnotherContent) {
  HubFile file = Put("a", "content");
  ASSERT_TRUE(cache_.Link(kCommit, file).ok());
  file.bytes = 8;
  EXPECT_FALSE(cache_.HasFile(kCommit, file));
  EXPECT_FALSE(cache_.HasBlob(file));
}

TEST_F(RepositoryCacheTest, ARevisionIsNotedUnlessItIsACommit) {
  EXPECT_EQ(cache_.CommitOf("main"), std::nullopt);
  ASSERT_TRUE(cache_.NoteCommit("refs/pr/1", kCommit).ok());
  EXPECT_EQ(ReadFile(folder_.path() + "/models--org--tiny/refs/refs/pr/1"), kCommit);
  EXPECT_EQ(cache_.CommitOf("refs/pr/1"), kCommit);
  ASSERT_TRUE(cache_.NoteCommit(kCommit, kCommit).ok());
  EXPECT_FALSE(fs::exists(folder_.path() + "/models--org--tiny/refs/" + kCommit));
  EXPECT_EQ(cache_.CommitOf(kCommit), kCommit);
}

TEST_F(RepositoryCacheTest, AListingIsKeptInTheFormOfHuggingfaceHub) {
  const std::vector<HubFile> files = {
      {.path = "a", .bytes = 3, .etag = std::string(40, '1')},
      {.path = "b/c", .bytes = int64_t{5} << 30, .etag = std::string(64, '2')}};
  EXPECT_EQ(ReadKeptListing(cache_, kCommit), std::nullopt);
  ASSERT_TRUE(KeepListing(cache_, kCommit, files).ok());
  EXPECT_EQ(ReadKeptListing(cache_, kCommit), files);
  fs::create_directories(fs::path(cache_.Tree(kCommit)).parent_path());
  fs::rename(cache_.Listing(kCommit), cache_.Tree(kCommit));
  EXPECT_EQ(ReadKeptListing(cache_, kCommit), files);
  for (const char* wrong :
       {"", "[]", R"({"format_version": 2, "files": {}})", R"({"format_version": 1})",
        R"({"format_version": 1, "files": {"../a": {"size": 1, "blob_id": "x"}}})"}) {
    folder_.Write("models--org--tiny/trees/" + std::string(kCommit) + ".json", wrong);
    EXPECT_EQ(ReadKeptListing(cache_, kCommit), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace coxswain::hub
