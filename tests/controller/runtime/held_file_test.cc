#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "controller/runtime/files.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

class HeldFileTest : public testing::Test {
 protected:
  const support::ScratchFolder folder_;
  const std::string root_ = folder_.path();
  const std::string path_ = root_ + "/owner";
  DiskFiles files_;
};

TEST_F(HeldFileTest, IsHeldOnceByWhateverPathAndUntilItsHolderGoes) {
  fs::create_directory_symlink(root_, root_ + "/link");
  EXPECT_FALSE(*files_.IsHeld(path_));
  auto held = files_.Hold(path_);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE((*held)->exclusive());
  EXPECT_TRUE(*files_.IsHeld(root_ + "/link/owner"));
  EXPECT_EQ(*files_.Hold(root_ + "/link/owner"), nullptr);
  held->reset();
  EXPECT_FALSE(*files_.IsHeld(path_));
  EXPECT_NE(*files_.Hold(path_), nullptr);
}

TEST_F(HeldFileTest, WritesInPlaceAndKnowsWhenThePathNamesAnotherFile) {
  auto held = *files_.Hold(path_);
  ASSERT_TRUE(held->Write("a longer text").ok());
  ASSERT_TRUE(held->Write("text").ok());
  EXPECT_EQ(*files_.Read(path_), "text");
  EXPECT_TRUE(held->InPlace());
  fs::remove(path_);
  EXPECT_FALSE(held->InPlace());
  auto next = *files_.Hold(path_);
  ASSERT_NE(next, nullptr);
  ASSERT_TRUE(held->Remove().ok());  // not the other's
  EXPECT_TRUE(next->InPlace());
  ASSERT_TRUE(next->Remove().ok());
  EXPECT_FALSE(fs::exists(path_));
}

// A link there let a job write over what it leads to; a FIFO kept whoever asked waiting.
TEST_F(HeldFileTest, NeitherALinkNorAnythingButAFileIsALockFile) {
  const std::string target = folder_.Write("precious", "not ours");
  fs::create_symlink(target, path_);
  for (const absl::Status& refused : {files_.Hold(path_).status(), files_.IsHeld(path_).status(),
                                      files_.AgeSeconds(path_).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_NE(refused.message().find(path_ + ": it is a symbolic link"), std::string::npos);
  }
  EXPECT_EQ(*files_.Read(target), "not ours");
  fs::remove(path_);
  fs::create_symlink(root_ + "/nowhere", path_);
  EXPECT_FALSE(files_.Hold(path_).ok());
  EXPECT_FALSE(fs::exists(root_ + "/nowhere"));  // nor is one made behind it
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const absl::Status& refused : {files_.Hold(path_).status(), files_.IsHeld(path_).status(),
                                      files_.AgeSeconds(path_).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  }
}

TEST_F(HeldFileTest, AgeIsThatOfTheLastTouch) {
  auto held = *files_.Hold(path_);
  fs::last_write_time(path_, fs::last_write_time(path_) - std::chrono::seconds(100));
  EXPECT_GE(*files_.AgeSeconds(path_), 99);
  ASSERT_TRUE(held->Touch().ok());
  EXPECT_LT(*files_.AgeSeconds(path_), 50);
  EXPECT_EQ(files_.List(root_)->size(), 1u);  // nothing stays beside it
}

TEST_F(HeldFileTest, IdentityFollowsLinksAndNamesWhatIsNotThereYet) {
  fs::create_directory_symlink(root_, root_ + "/link");
  EXPECT_EQ(*files_.Identity(root_), *files_.Identity(root_ + "/link/"));
  EXPECT_EQ(*files_.Identity(root_ + "/a/b"), *files_.Identity(root_ + "/link/a/b"));
  EXPECT_NE(*files_.Identity(root_ + "/a/b"), *files_.Identity(root_ + "/a/c"));
}

}  // namespace
}  // namespace coxswain
