#include "controller/folders/replace_directory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/controller/killing_files.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

class ReplaceDirectoryTest : public testing::Test {
 protected:
  void SetUp() override { Reset(); }

  void Reset() {
    fs::remove_all(root_);
    ASSERT_TRUE(files_.MakeDirs(target_).ok());
    ASSERT_TRUE(files_.MakeDirs(finished_).ok());
    for (const char* name : {"a", "b"}) {
      ASSERT_TRUE(files_.WriteDurably(target_ + "/" + name, "old").ok());
      ASSERT_TRUE(files_.WriteDurably(finished_ + "/" + name, "new").ok());
    }
  }
  static absl::Status MayGo(const std::string&) { return absl::OkStatus(); }
  // "old" or "new" when the target is whole.
  std::string Target() {
    const auto a = files_.Read(target_ + "/a"), b = files_.Read(target_ + "/b");
    return a.ok() && b.ok() && *a == *b ? *a : "not whole";
  }

  const support::ScratchFolder folder_;
  const std::string root_ = folder_.path();
  const std::string target_ = root_ + "/model", finished_ = root_ + "/.staging/export-model";
  const std::string aside_ = finished_ + kReplacedEnding;
  DiskFiles files_;
};

TEST_F(ReplaceDirectoryTest, PutsTheFinishedOneInPlaceAndRemovesTheOther) {
  ASSERT_TRUE(ReplaceDirectory(&files_, finished_, target_, MayGo).ok());
  EXPECT_EQ(Target(), "new");
  EXPECT_FALSE(fs::exists(finished_));
  EXPECT_FALSE(fs::exists(aside_));
}

// Invariant driver-12.
TEST_F(ReplaceDirectoryTest, AKillAfterAnyOperationLeavesTheOldOrTheNewOneWhole) {
  int kills = 0;
  for (; kills < 20; ++kills) {
    Reset();
    const bool survived = SurvivesKillAt(
        kills, [&](Files* files) { return ReplaceDirectory(files, finished_, target_, MayGo); });
    if (fs::exists(aside_)) {
      ASSERT_TRUE(RestoreReplaced(&files_, aside_, target_, MayGo).ok());
    }
    EXPECT_EQ(Target(), kills < 3 ? "old" : "new") << "killed at operation " << kills;
    EXPECT_FALSE(fs::exists(aside_));
    if (survived) break;
  }
  EXPECT_EQ(kills, 4);  // room aside, aside, in place, remove
}

TEST_F(ReplaceDirectoryTest, AnErrorBetweenTheRenamesPutsTheOldOneBack) {
  fs::remove_all(finished_);
  EXPECT_EQ(ReplaceDirectory(&files_, finished_, target_, MayGo).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Target(), "old");
}

TEST_F(ReplaceDirectoryTest, WhatMayNotGoGoesBack) {
  const absl::Status status =
      ReplaceDirectory(&files_, finished_, target_, [&](const std::string& aside) {
        EXPECT_EQ(aside, aside_);
        EXPECT_FALSE(fs::exists(target_));
        return absl::FailedPreconditionError("a user's");
      });
  EXPECT_EQ(status.message(), "a user's");
  EXPECT_EQ(Target(), "old");
  EXPECT_FALSE(fs::exists(aside_));
}

TEST_F(ReplaceDirectoryTest, WhatAnEarlierOneLeftAsideStaysWhereItMayNotGo) {
  ASSERT_TRUE(files_.MakeDirs(aside_).ok());
  ASSERT_TRUE(files_.WriteDurably(aside_ + "/mine.txt", "a user's").ok());
  const auto refuse = [&](const std::string& there) {
    EXPECT_EQ(there, aside_);
    return absl::FailedPreconditionError("a user's");
  };
  EXPECT_EQ(ReplaceDirectory(&files_, finished_, target_, refuse).message(), "a user's");
  EXPECT_EQ(RestoreReplaced(&files_, aside_, target_, refuse).message(), "a user's");
  EXPECT_EQ(Target(), "old");
  EXPECT_TRUE(fs::exists(aside_ + "/mine.txt"));
}

}  // namespace
}  // namespace coxswain
