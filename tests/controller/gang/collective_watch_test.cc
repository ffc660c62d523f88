// Who keeps the others waiting. Invariant driver-11.
#include "controller/gang/collective_watch.h"

#include <gtest/gtest.h>

namespace coxswain::gang {
namespace {

using std::chrono::milliseconds;

// A rank that finished command `seq` and is in collective `started`, or has finished it (ms < 0).
v1::HeartbeatRequest Beat(uint64_t seq, uint64_t started, int64_t ms) {
  v1::HeartbeatRequest beat;
  beat.set_last_done_seq(seq);
  v1::CollectiveProgress* collective = beat.mutable_collectives();
  collective->set_started(started);
  collective->set_finished(ms < 0 ? started : started - 1);
  if (ms >= 0) {
    collective->set_operation("all_reduce of 7 float32 over world");
    collective->set_in_it_ms(ms);
  }
  return beat;
}

std::optional<Suspect> Find(const RankBeats& beats) {
  return FindSuspect(beats, milliseconds(7000));
}

TEST(CollectiveWatchTest, NamesTheRankThatDidNotCome) {
  const auto suspect =
      Find({Beat(4, 12, 7500), Beat(4, 12, 8000), Beat(4, 11, -1), Beat(4, 12, 10)});
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->rank, 2);
  EXPECT_EQ(suspect->message,
            "keeps rank 0, 1, 3 waiting in collective #12 (all_reduce of 7 float32 over world) for "
            "7500 ms, limit 7000 ms; it has come to #11: taken for a hang");
}

TEST(CollectiveWatchTest, ARankBehindByACommandIsTheOneAlthoughItsNumberIsHigher) {
  const auto suspect = Find({Beat(5, 3, 9000), Beat(4, 12, -1)});
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->rank, 1);
}

TEST(CollectiveWatchTest, NamesNobodyWhenAllAreInIt) {
  const auto suspect = Find({Beat(4, 12, 7500), Beat(4, 12, 7400)});
  ASSERT_TRUE(suspect.has_value());
  EXPECT_EQ(suspect->rank, -1);
  EXPECT_NE(suspect->message.find("every rank is in collective #12"), std::string::npos);
}

TEST(CollectiveWatchTest, ShortWaitsAreNoHang) {
  EXPECT_FALSE(Find({Beat(4, 12, 7000), Beat(4, 11, -1)}).has_value());
  EXPECT_FALSE(Find({Beat(4, 12, -1), Beat(4, 11, -1)}).has_value());
  EXPECT_FALSE(Find({v1::HeartbeatRequest(), v1::HeartbeatRequest()}).has_value());
}

TEST(CollectiveWatchTest, DescribesWhatRanksReported) {
  EXPECT_EQ(DescribeCollectives({Beat(4, 12, 900), Beat(4, 11, -1), v1::HeartbeatRequest()}),
            "; collectives: rank 0 in #12 (all_reduce of 7 float32 over world) for 900 ms, rank 1 "
            "finished #11");
  EXPECT_EQ(DescribeCollectives({v1::HeartbeatRequest()}), "");
}

}  // namespace
}  // namespace coxswain::gang
