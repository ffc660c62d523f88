// Finding NCCL and reading its answers; needs no GPU.
#include "worker/comm/nccl_library.h"

#include <gtest/gtest.h>

namespace coxswain::comm {
namespace nccl_library_test {
namespace {

TEST(NcclLibraryTest, IsFoundInAVersionThatFitsOrTheSentenceSaysWhatToInstall) {
  const auto nccl = LoadNccl();
  if (nccl.ok()) {
    EXPECT_GE((*nccl)->version, NCCL_VERSION_CODE / 100 * 100);
    return;
  }
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(nccl.status().message().find("libnccl.so.2"), std::string::npos) << nccl.status();
  EXPECT_NE(nccl.status().message().find("install NCCL 2."), std::string::npos) << nccl.status();
}

TEST(NcclLibraryTest, StatusTellsAPeersFaultFromOurs) {
  const auto nccl = LoadNccl();
  if (!nccl.ok()) GTEST_SKIP() << nccl.status();
  EXPECT_TRUE(NcclStatus(**nccl, ncclSuccess, "call").ok());
  EXPECT_TRUE(NcclStatus(**nccl, ncclInProgress, "call").ok());
  EXPECT_EQ(NcclStatus(**nccl, ncclRemoteError, "call").code(), absl::StatusCode::kUnavailable);
  const absl::Status wrong = NcclStatus(**nccl, ncclInvalidUsage, "collective #7");
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(wrong.message().substr(0, 21), "collective #7: NCCL: ") << wrong;
}

TEST(NcclLibraryTest, VersionsReadAsTheirReleases) {
  EXPECT_EQ(NcclVersionText(22809), "2.28.9");
  EXPECT_EQ(NcclVersionText(23000), "2.30.0");
}

}  // namespace
}  // namespace nccl_library_test
}  // namespace coxswain::comm
