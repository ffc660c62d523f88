#include <gtest/gtest.h>

#include <filesystem>

#include "controller/files.h"
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
