#include "controller/failure/errors.h"

#include <gtest/gtest.h>

namespace coxswain::failure {
namespace {

TEST(ErrorsTest, TheRootCauseIsNotTheEchoOfAPeer) {
  const v1::Error echo = MakeError(absl::UnavailableError("peer gone"), {.rank = 0});
  const v1::Error cause = MakeError(absl::InternalError("segfault"), {.rank = 1});
  const v1::Error user = MakeError(absl::FailedPreconditionError("frozen"), {.rank = 2});
  const v1::Error bug = MakeBug(absl::DataLossError("other bits"), {.rank = 3});
  EXPECT_EQ(RootCause({echo, cause}).rank(), 1);
  EXPECT_EQ(RootCause({echo, cause, user}).rank(), 2);
  EXPECT_EQ(RootCause({echo, bug, user}).rank(), 3);
  EXPECT_EQ(RootCause({echo}).rank(), 0);
  EXPECT_EQ(user.kind(), v1::ERROR_KIND_USER);
  EXPECT_EQ(echo.kind(), v1::ERROR_KIND_SYSTEM);
  EXPECT_EQ(bug.kind(), v1::ERROR_KIND_BUG);
  EXPECT_EQ(ToStatus(user).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ErrorsTest, WhatARankToldIsFromWhereItIsAndCleanAndOfAKind) {
  v1::Error told;
  told.set_code("RESOURCE_EXHAUSTED");
  told.set_message("no\xffroom");
  told.set_rank(7);
  const Where where{.rank = 1, .host = "a", .phase = "prepare"};
  const v1::Error error = ToldBy(where, told);
  EXPECT_EQ(error.rank(), 1);
  EXPECT_EQ(error.host(), "a");
  EXPECT_EQ(error.phase(), "prepare");
  EXPECT_EQ(error.kind(), v1::ERROR_KIND_HOST);
  EXPECT_EQ(error.message().find('\xff'), std::string::npos);
  told.set_phase("train");
  told.set_kind(v1::ERROR_KIND_STORAGE);
  EXPECT_EQ(ToldBy(where, told).phase(), "train");
  EXPECT_EQ(ToldBy(where, told).kind(), v1::ERROR_KIND_STORAGE);
}

TEST(ErrorsTest, SaysWhereInAUsersWords) {
  const v1::Error error =
      MakeError(absl::InternalError("x"), {.rank = 1, .host = "a", .phase = "train"});
  EXPECT_EQ(Describe(error), "rank 1 (a), train: x");
  EXPECT_EQ(Describe(MakeError(absl::InternalError("x"), {})), "x");
}

}  // namespace
}  // namespace coxswain::failure
