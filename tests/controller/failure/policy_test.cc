// Invariant driver-8 and the table of controller/failure/README.md.
#include "controller/failure/policy.h"

#include <gtest/gtest.h>

#include "controller/failure/errors.h"

namespace coxswain::failure {
namespace {

using std::chrono::seconds;

v1::Error Of(v1::ErrorKind kind, const std::string& phase = "train") {
  v1::Error error = MakeError(absl::InternalError("x"), {.phase = phase});
  error.set_kind(kind);
  return error;
}

const JobFacts kTrained{.has_trained = true, .max_restarts = 2, .max_restarts_total = 9};
const JobFacts kNew{.max_restarts = 2, .max_restarts_total = 9};

TEST(PolicyTest, EveryKindHasItsCourse) {
  const auto course = [](v1::ErrorKind kind, const JobFacts& facts) {
    return JudgeAttempt(Of(kind), facts).course;
  };
  EXPECT_EQ(course(v1::ERROR_KIND_USER, kTrained), Course::kEnds);
  EXPECT_EQ(course(v1::ERROR_KIND_BUG, kTrained), Course::kEnds);
  EXPECT_EQ(course(v1::ERROR_KIND_SYSTEM, kTrained), Course::kTriesAgain);
  EXPECT_EQ(course(v1::ERROR_KIND_STORAGE, kTrained), Course::kWaits);
  EXPECT_EQ(course(v1::ERROR_KIND_HOST, kTrained), Course::kWaits);
  EXPECT_EQ(course(v1::ERROR_KIND_SYSTEM, kNew), Course::kTriesAgain);
  EXPECT_EQ(course(v1::ERROR_KIND_STORAGE, kNew), Course::kEnds);
  EXPECT_EQ(course(v1::ERROR_KIND_HOST, kNew), Course::kEnds);
}

TEST(PolicyTest, AGangThatAUserEndedIsFormedAgainAtOnceAndCostsNoRestart) {
  JobFacts facts = kNew;
  facts.asked_to_stop = true;
  facts.restarts_since_checkpoint = facts.max_restarts;
  const Verdict verdict = JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts);
  EXPECT_EQ(verdict.course, Course::kWaits);
  EXPECT_EQ(verdict.wait, seconds(0));
  EXPECT_NE(verdict.reason.find("ended by a user"), std::string::npos) << verdict.reason;
  facts.draining = true;
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts).course, Course::kTriesAgain);
}

TEST(PolicyTest, ADiskIsNoFaultOfAJobThatNeverTrained) {
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_STORAGE, "store"), kNew).course, Course::kWaits);
  v1::Error full = Of(v1::ERROR_KIND_STORAGE, "output");
  EXPECT_EQ(JudgeAttempt(full, kNew).course, Course::kEnds);  // a path that is not there
  full.set_code("RESOURCE_EXHAUSTED");
  EXPECT_EQ(JudgeAttempt(full, kNew).course, Course::kWaits);
  const std::string reason = JudgeAttempt(full, kNew).reason;
  EXPECT_NE(reason.find("waits for storage: " + full.message()), std::string::npos) << reason;
  EXPECT_NE(reason.find("cox cancel (Ctrl-C in cox train) ends it"), std::string::npos) << reason;
  EXPECT_EQ(Whose(Of(v1::ERROR_KIND_STORAGE), kNew).kind(), v1::ERROR_KIND_USER);
  EXPECT_EQ(Whose(Of(v1::ERROR_KIND_STORAGE), kTrained).kind(), v1::ERROR_KIND_STORAGE);
}

TEST(PolicyTest, RestartsAreBudgetedSinceTheCheckpointAndInALife) {
  JobFacts facts = kTrained;
  facts.restarts_since_checkpoint = 2;
  Verdict verdict = JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts);
  EXPECT_EQ(verdict.course, Course::kEnds);
  EXPECT_NE(verdict.error.message().find("resources.max_restarts)"), std::string::npos);
  facts.restarts_since_checkpoint = 0;
  facts.restarts = 9;
  verdict = JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts);
  EXPECT_EQ(verdict.course, Course::kEnds);
  EXPECT_NE(verdict.error.message().find("resources.max_restarts_total"), std::string::npos);
  EXPECT_EQ(verdict.reason, "failed after 9 restarts");
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_STORAGE), facts).course, Course::kWaits);
}

TEST(PolicyTest, RestartsWaitLongerAndLonger) {
  JobFacts facts = kTrained;
  facts.max_restarts = 99;
  std::vector<int64_t> waits;
  for (facts.restarts_since_checkpoint = 0; facts.restarts_since_checkpoint < 8;
       ++facts.restarts_since_checkpoint) {
    waits.push_back(JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts).wait.count() / 1000);
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{0, 1, 2, 4, 8, 16, 30, 30}));
  waits.clear();
  for (facts.held_up = 0; facts.held_up < 8; ++facts.held_up) {
    waits.push_back(JudgeAttempt(Of(v1::ERROR_KIND_HOST), facts).wait.count() / 1000);
  }
  EXPECT_EQ(waits, (std::vector<int64_t>{5, 10, 20, 40, 80, 160, 300, 300}));
}

TEST(PolicyTest, ADrainEndsAllTheSameButForABug) {
  JobFacts facts = kTrained;
  facts.draining = true;
  facts.restarts_since_checkpoint = 99;
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_USER), facts).course, Course::kTriesAgain);
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_SYSTEM), facts).reason, "drained by force");
  EXPECT_EQ(JudgeAttempt(Of(v1::ERROR_KIND_BUG), facts).course, Course::kEnds);
  EXPECT_NE(JudgeAttempt(Of(v1::ERROR_KIND_STORAGE), facts).reason.find("without a checkpoint"),
            std::string::npos);
}

TEST(PolicyTest, PreparationsAndExportsAreTriedAgainForStorageOnly) {
  EXPECT_EQ(JudgePreparation(Of(v1::ERROR_KIND_SYSTEM), kTrained).course, Course::kEnds);
  EXPECT_EQ(JudgePreparation(Of(v1::ERROR_KIND_STORAGE), kTrained).course, Course::kWaits);
  EXPECT_EQ(JudgePreparation(Of(v1::ERROR_KIND_STORAGE), kNew).course, Course::kEnds);
  const v1::Error full = MakeError(absl::ResourceExhaustedError("no space"), {.phase = "tokens"});
  EXPECT_EQ(full.kind(), v1::ERROR_KIND_STORAGE);
  EXPECT_EQ(JudgePreparation(full, kNew).course, Course::kWaits);
  EXPECT_EQ(JudgePreparation(full, kNew).wait, seconds(5));
  EXPECT_EQ(JudgeExport(Of(v1::ERROR_KIND_STORAGE), kTrained).course, Course::kWaits);
  EXPECT_EQ(JudgeExport(Of(v1::ERROR_KIND_SYSTEM), kTrained).course, Course::kEnds);
}

TEST(PolicyTest, ASaveThatStorageFailsCostsItsCheckpointUnlessItIsNeeded) {
  const v1::Error storage = Of(v1::ERROR_KIND_STORAGE);
  EXPECT_TRUE(CostsOnlyTheCheckpoint(storage, {}));
  EXPECT_FALSE(CostsOnlyTheCheckpoint(storage, {.is_best = true}));
  EXPECT_FALSE(CostsOnlyTheCheckpoint(storage, {.is_last = true}));
  EXPECT_TRUE(CostsOnlyTheCheckpoint(storage, {.is_last = true, .cancelled = true}));
  EXPECT_FALSE(CostsOnlyTheCheckpoint(Of(v1::ERROR_KIND_SYSTEM), {}));
}

TEST(PolicyTest, OnlyWhatDoesNotExplainItselfIsDumped) {
  EXPECT_TRUE(NeedsDump(Of(v1::ERROR_KIND_SYSTEM)));
  EXPECT_TRUE(NeedsDump(Of(v1::ERROR_KIND_BUG)));
  EXPECT_FALSE(NeedsDump(Of(v1::ERROR_KIND_USER)));
  EXPECT_FALSE(NeedsDump(Of(v1::ERROR_KIND_STORAGE)));
}

}  // namespace
}  // namespace coxswain::failure
