#include "controller/scheduler/cordons.h"

#include <gtest/gtest.h>

#include <chrono>

#include "controller/scheduler/host_records.h"

namespace coxswain::scheduler {
namespace {

constexpr int64_t kMinuteNs = 60'000'000'000;

TEST(CordonsTest, AHostsCoversItsWorkersAndAWorkersItselfAlone) {
  Cordons cordons;
  cordons.Set({.target = "a/1", .reason = "worker"});
  EXPECT_EQ(cordons.Covering("a/0", "a"), nullptr);
  ASSERT_NE(cordons.Covering("a/1", "a"), nullptr);
  EXPECT_EQ(cordons.Covering("a/1", "a")->reason, "worker");
  cordons.Set({.target = "a", .reason = "host"});
  EXPECT_EQ(cordons.Covering("a/0", "a")->reason, "host");
  EXPECT_EQ(cordons.Covering("b/0", "b"), nullptr);
  cordons.Set({.target = "a", .reason = "again"});
  EXPECT_EQ(cordons.All().size(), 2u);
  EXPECT_EQ(cordons.Find("a")->reason, "again");
  cordons.Lift("a");
  cordons.Lift("none");
  EXPECT_EQ(cordons.Covering("a/0", "a"), nullptr);
  EXPECT_EQ(cordons.Covering("a/1", "a")->reason, "worker");
}

TEST(HostFailuresTest, ThreeWithinAnHourAreTooManyAndCountAnew) {
  HostFailures failures;
  EXPECT_FALSE(failures.Add("a", 0));
  EXPECT_FALSE(failures.Add("a", kMinuteNs));
  EXPECT_FALSE(failures.Add("b", kMinuteNs));
  EXPECT_TRUE(failures.Add("a", 59 * kMinuteNs));
  EXPECT_FALSE(failures.Add("a", 59 * kMinuteNs));
}

TEST(HostFailuresTest, AnHourLaterAFailureIsForgotten) {
  HostFailures failures;
  EXPECT_FALSE(failures.Add("a", 0));
  EXPECT_FALSE(failures.Add("a", 30 * kMinuteNs));
  EXPECT_FALSE(failures.Add("a", 60 * kMinuteNs));
  EXPECT_TRUE(failures.Add("a", 61 * kMinuteNs));
}

TEST(HostFailuresTest, AHostThatIsPutBackBeginsAnew) {
  HostFailures failures;
  EXPECT_FALSE(failures.Add("a", 0));
  EXPECT_FALSE(failures.Add("a", 0));
  failures.Forget("a");
  EXPECT_FALSE(failures.Add("a", 0));
}

}  // namespace
}  // namespace coxswain::scheduler
