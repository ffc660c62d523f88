#include "controller/gang/rank_errors.h"

#include <gtest/gtest.h>

#include "controller/failure/errors.h"

namespace coxswain::gang {
namespace {

v1::Error Of(int rank, const absl::Status& status) {
  return failure::MakeError(status, {.rank = rank, .phase = "train"});
}

TEST(RankErrorsTest, WaitForEveryRankBeforeTheVerdict) {
  RankErrors errors(2);
  EXPECT_TRUE(errors.empty());
  errors.Told(0, Of(0, absl::UnavailableError("peer gone")));
  EXPECT_FALSE(errors.Settled());
  EXPECT_TRUE(errors.Knows(0));
  EXPECT_FALSE(errors.Knows(1));
  errors.Told(1, Of(1, absl::InternalError("segfault")));
  EXPECT_TRUE(errors.Settled());
  EXPECT_EQ(errors.Verdict().rank(), 1);
}

TEST(RankErrorsTest, AUsersErrorNeedsNoOther) {
  RankErrors errors(8);
  errors.Told(3, Of(3, absl::InvalidArgumentError("a bad bin")));
  EXPECT_TRUE(errors.Settled());
}

// Invariant gang-4.
TEST(RankErrorsTest, WhatIsSeenGoesBeforeWhatOthersTell) {
  RankErrors errors(3);
  errors.Told(0, Of(0, absl::UnavailableError("rank 1 is gone")));
  errors.Seen(1, Of(1, absl::UnavailableError("its command stream ended")));
  EXPECT_EQ(errors.Verdict().rank(), 1);
  errors.OfGang(Of(-1, absl::InternalError("disagree")));
  EXPECT_EQ(errors.Verdict().rank(), -1);
}

}  // namespace
}  // namespace coxswain::gang
