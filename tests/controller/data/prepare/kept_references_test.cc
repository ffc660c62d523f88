#include "controller/data/prepare/kept_references.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace kept_references_test {
namespace {

class KeptReferencesTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteReferences(path_, {.train = {-1.5, -2.25, -0.125}, .eval = {-7.0}}).ok());
  }

  const support::ScratchFolder folder_;
  const std::string path_ = folder_.path() + "/references";
};

TEST_F(KeptReferencesTest, ComesBackByBit) {
  const auto read = ReadReferences(path_, 3, 1);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->train, (std::vector<double>{-1.5, -2.25, -0.125}));
  EXPECT_EQ(read->eval, std::vector<double>{-7.0});
}

TEST_F(KeptReferencesTest, OtherStoresAndDamageAreNamed) {
  const auto other = ReadReferences(path_, 2, 1);
  EXPECT_TRUE(absl::IsDataLoss(other.status()));
  EXPECT_NE(other.status().message().find("3 and 1 documents; the prepared data has 2 and 1"),
            std::string::npos)
      << other.status();
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('x');
  }
  EXPECT_TRUE(absl::IsDataLoss(ReadReferences(path_, 3, 1).status()));
  std::filesystem::resize_file(path_, 5);
  EXPECT_TRUE(absl::IsDataLoss(ReadReferences(path_, 3, 1).status()));
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsNotFound(ReadReferences(path_, 3, 1).status()));
}

}  // namespace
}  // namespace kept_references_test
}  // namespace coxswain::data
