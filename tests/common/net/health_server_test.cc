#include "common/net/health_server.h"

#include <gtest/gtest.h>

#include "common/net/health_check.h"

namespace coxswain {
namespace {

constexpr std::chrono::milliseconds kHealthPatience{20000};

TEST(HealthServerTest, TellsOfEachServiceByName) {
  auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(health.ok()) << health.status();
  const std::string address = (*health)->address();
  EXPECT_EQ(CheckHealth(address, "", kHealthPatience).value(), true);
  EXPECT_EQ(CheckHealth(address, "a", kHealthPatience).status().code(),
            absl::StatusCode::kNotFound);
  (*health)->Set("a", false);
  EXPECT_EQ(CheckHealth(address, "a", kHealthPatience).value(), false);
  (*health)->Set("a", true);
  (*health)->Set("b", false);
  EXPECT_EQ(CheckHealth(address, "a", kHealthPatience).value(), true);
  EXPECT_EQ(CheckHealth(address, "b", kHealthPatience).value(), false);
}

// In plaintext where every other server of ours asks for certificates.
TEST(HealthServerTest, ServesOnEveryInterfaceAndNothingElse) {
  auto health = HealthServer::Start("0.0.0.0:0");
  ASSERT_TRUE(health.ok()) << health.status();
  const std::string port = (*health)->address().substr(std::string("0.0.0.0").size());
  EXPECT_EQ(CheckHealth("127.0.0.1" + port, "", kHealthPatience).value(), true);
}

TEST(HealthServerTest, APortInUseIsNamed) {
  auto first = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = HealthServer::Start((*first)->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find((*first)->address()), std::string::npos);
}

TEST(HealthCheckTest, NobodyThereIsUnavailableAndAWrongAddressIsNamed) {
  std::string address;
  {
    auto gone = HealthServer::Start("127.0.0.1:0");
    ASSERT_TRUE(gone.ok());
    address = (*gone)->address();
  }
  EXPECT_EQ(CheckHealth(address, "", kHealthPatience).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(CheckHealth("nowhere", "", kHealthPatience).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain
