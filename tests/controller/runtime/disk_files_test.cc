#include <gtest/gtest.h>

#include "controller/runtime/files.h"
#include "tests/support/scratch_folder.h"

namespace coxswain {
namespace {

class DiskFilesTest : public testing::Test {
 protected:
  absl::Status WriteAt(int64_t offset, const std::string& content, bool ends) {
    return files_.WriteAt(path_, offset, content, ends);
  }
  std::string Content() { return files_.Read(path_).value_or("none"); }

  support::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/file";
  DiskFiles files_;
};

TEST_F(DiskFilesTest, AFileGrowsFromWhereItIsWritten) {
  ASSERT_TRUE(WriteAt(0, "abc", true).ok());
  ASSERT_TRUE(WriteAt(3, "de", true).ok());
  EXPECT_EQ(Content(), "abcde");
}

TEST_F(DiskFilesTest, WhatFollowsStaysUnlessTheFileEndsThere) {
  ASSERT_TRUE(WriteAt(0, "abcdef", true).ok());
  ASSERT_TRUE(WriteAt(1, "XY", false).ok());
  EXPECT_EQ(Content(), "aXYdef");
  ASSERT_TRUE(WriteAt(1, "Z", true).ok());
  EXPECT_EQ(Content(), "aZ");
}

TEST_F(DiskFilesTest, AFileThatIsTooShortIsNotFilledUp) {
  ASSERT_TRUE(WriteAt(0, "abc", true).ok());
  const absl::Status status = WriteAt(4, "e", true);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("it has 3 bytes of the 4"), std::string::npos) << status;
  EXPECT_EQ(Content(), "abc");
}

TEST_F(DiskFilesTest, ADirectoryGoesOnlyWhenItIsEmpty) {
  const std::string folder = folder_.path() + "/folder";
  ASSERT_TRUE(files_.MakeDirs(folder + "/within").ok());
  EXPECT_TRUE(files_.RemoveIfEmpty(folder).ok());
  EXPECT_TRUE(files_.Exists(folder + "/within"));
  EXPECT_TRUE(files_.RemoveIfEmpty(folder + "/within").ok());
  EXPECT_TRUE(files_.RemoveIfEmpty(folder).ok());
  EXPECT_FALSE(files_.Exists(folder));
  EXPECT_TRUE(files_.RemoveIfEmpty(folder).ok());  // absent
}

TEST_F(DiskFilesTest, AnErrorNamesThePath) {
  const absl::Status status = files_.WriteAt(path_ + "/below", 0, "a", true);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(status.message().find(path_), std::string::npos);
}

}  // namespace
}  // namespace coxswain
