#include "common/hub/api/repository.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coxswain::hub {
namespace {

absl::Status CheckId(const std::string& id) {
  return MakeRepository(RepositoryType::kModel, id).status();
}

absl::Status CheckRevision(const std::string& revision) {
  return MakeRepository(RepositoryType::kModel, "org/name", revision).status();
}

TEST(HubRepositoryTest, IdsAreThoseThatTheHubGives) {
  for (const char* id : {"gpt2", "Qwen/Qwen2.5-0.5B", "org/a_b.c", "123", "_a/b_"}) {
    EXPECT_TRUE(CheckId(id).ok()) << CheckId(id);
  }
  for (const std::string& id :
       std::vector<std::string>{"", "/", "a/", "/a", "a/b/c", "a b", "a--b", "a..b", "../b", ".a",
                                "a.", "-a", "a-", "a.git", "datasets/a/b", "a\n", "org/ü"}) {
    EXPECT_EQ(CheckId(id).code(), absl::StatusCode::kInvalidArgument) << id;
  }
  EXPECT_TRUE(CheckId(std::string(96, 'a')).ok());
  EXPECT_FALSE(CheckId(std::string(97, 'a')).ok());
}

TEST(HubRepositoryTest, RevisionsAreNamesOfGit) {
  for (const char* revision : {"main", "v1.0", "refs/pr/1", "refs/convert/parquet", "a1b2c3d"}) {
    EXPECT_TRUE(CheckRevision(revision).ok()) << CheckRevision(revision);
  }
  for (const std::string& revision :
       {std::string(), std::string("../main"), std::string("a/../b"), std::string("/etc"),
        std::string("a//b"), std::string("a/"), std::string(".a"), std::string("a/.b"),
        std::string("a b"), std::string("a\nb"), std::string("a\0b", 3), std::string("a.lock"),
        std::string("a@{1}"), std::string("a~1"), std::string("a\\b"), std::string(256, 'a')}) {
    EXPECT_EQ(CheckRevision(revision).code(), absl::StatusCode::kInvalidArgument) << revision;
  }
}

TEST(HubRepositoryTest, FoldersAndUrlsAreThoseOfHuggingfaceHub) {
  const Repository model = *MakeRepository(RepositoryType::kModel, "org/name", "refs/pr/1");
  const Repository data = *MakeRepository(RepositoryType::kDataset, "squad");
  EXPECT_EQ(FolderName(model), "models--org--name");
  EXPECT_EQ(FolderName(data), "datasets--squad");
  EXPECT_EQ(RevisionUrl("http://h", model), "http://h/api/models/org/name/revision/refs%2Fpr%2F1");
  EXPECT_EQ(TreeUrl("http://h", data, "c"), "http://h/api/datasets/squad/tree/c?recursive=true");
  EXPECT_EQ(FileUrl("http://h", model, "c", "a/b c"), "http://h/org/name/resolve/c/a/b%20c");
  EXPECT_EQ(FileUrl("http://h", data, "c", "a"), "http://h/datasets/squad/resolve/c/a");
  EXPECT_EQ(PageUrl("http://h", data), "http://h/datasets/squad");
}

TEST(HubRepositoryTest, ACommitIsFortyDigits) {
  EXPECT_TRUE(IsCommit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("0123456"));
}

}  // namespace
}  // namespace coxswain::hub
