#include "controller/gang/step_timing.h"

#include <gtest/gtest.h>

#include "controller/gang/gang.h"

namespace coxswain::gang {
namespace {

using std::chrono::milliseconds;

TEST(StepTimingTest, LimitsFollowTheMedianAfterWarmUp) {
  StepTiming timing;
  EXPECT_EQ(timing.HangLimit(milliseconds(300), milliseconds(30)), milliseconds(300));
  EXPECT_EQ(timing.DrainLimit(milliseconds(30)), milliseconds(30));
  for (int i = 0; i < 3; ++i) timing.Add(20);
  EXPECT_EQ(timing.HangLimit(milliseconds(300), milliseconds(30000)), milliseconds(100000));
  EXPECT_EQ(timing.CollectiveLimit(milliseconds(300), milliseconds(7000)), milliseconds(40000));
  EXPECT_EQ(timing.DrainLimit(milliseconds(30000)), milliseconds(100000));
  EXPECT_EQ(timing.DrainLimit(milliseconds(300000)), milliseconds(300000));
}

TEST(GangTest, PeakIsOfAllRanksAndUnknownWhereOneIs) {
  Gang gang;
  gang.ranks.resize(2);
  for (Rank& rank : gang.ranks) rank.peak_flops = 1e15;
  EXPECT_DOUBLE_EQ(gang.PeakFlops(), 2e15);
  gang.ranks[1].peak_flops = 0;
  EXPECT_EQ(gang.PeakFlops(), 0);
}

}  // namespace
}  // namespace coxswain::gang
