#include "common/files/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
  return found.st_mode & 07777;
}

TEST(PrivateFolderTest, ANewFolderIsItsUsersAlone) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/above/state";
  ASSERT_TRUE(MakePrivateFolder(path).ok());
  EXPECT_EQ(ModeOf(path), 0700u);
  EXPECT_TRUE(MakePrivateFolder(path).ok()) << "it is there already";
}

TEST(PrivateFolderTest, AFolderThatIsThereKeepsItsMode) {
  const support::ScratchFolder folder;
  const std::string path = folder.path() + "/shared";
  ASSERT_EQ(mkdir(path.c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(MakePrivateFolder(path).ok());
  EXPECT_EQ(ModeOf(path), 0755u);
}

TEST(PrivateFolderTest, AFileInItsPlaceIsNamed) {
  const support::ScratchFolder folder;
  const std::string path = folder.Write("state", "text");
  const absl::Status status = MakePrivateFolder(path);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
}

}  // namespace
}  // namespace coxswain
