// The pure rules of a run: dealing bins, order of commands, window, commit, policies.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "controller/checkpoint/run_state.h"
#include "controller/driver/answers.h"
#include "controller/driver/command_window.h"
#include "controller/driver/commit_step.h"
#include "controller/driver/errors.h"
#include "controller/driver/gang.h"
#include "controller/driver/step_script.h"
#include "controller/driver/step_timing.h"

namespace coxswain::driver {
namespace {

std::string Play(StepScript script, int limit = 100) {
  std::string out;
  for (int i = 0; i < limit && script.next() != Action::kEnd; ++i) {
    const char letter = script.next() == Action::kTrain      ? 't'
                        : script.next() == Action::kEval     ? 'e'
                        : script.next() == Action::kGenerate ? 'g'
                                                             : 's';
    out += letter + std::to_string(script.step()) + " ";
    script.Advance();
  }
  return out;
}

TEST(StepScriptTest, EvaluatesAtZeroEverySoManyStepsAndAtTheEnd) {
  const ScriptRules rules{.total_steps = 5, .eval_steps = 2, .save_steps = 3, .has_eval = true};
  EXPECT_EQ(Play(StepScript(rules, 0)), "e0 t0 t1 e2 t2 s3 t3 e4 t4 e5 s5 ");
}

TEST(StepScriptTest, AResumedRunRepeatsNothingOfItsCheckpoint) {
  const ScriptRules rules{.total_steps = 5, .eval_steps = 2, .save_steps = 2, .has_eval = true};
  EXPECT_EQ(Play(StepScript(rules, 2)), "t2 t3 e4 s4 t4 e5 s5 ");
  EXPECT_EQ(Play(StepScript(rules, 5)), "");
}

TEST(StepScriptTest, AnswersWhereAnEvaluationIsDue) {
  ScriptRules rules{.total_steps = 3, .eval_steps = 2, .save_steps = 2, .has_prompts = true};
  EXPECT_EQ(Play(StepScript(rules, 0)), "g0 t0 t1 g2 s2 t2 g3 s3 ");
  EXPECT_EQ(Play(StepScript(rules, 2)), "t2 g3 s3 ");
  rules.has_eval = true;
  EXPECT_EQ(Play(StepScript(rules, 0)), "e0 g0 t0 t1 e2 g2 s2 t2 e3 g3 s3 ");
  EXPECT_EQ(Play(StepScript({.has_prompts = true}, 0)), "g0 ");  // a job that only generates
}

// Each id is a byte here, as in a tokenizer of bytes; what is cut at the end is U+FFFD.
TEST(AnswersTest, ACharacterThatIsCutWaitsForItsRest) {
  Questions questions;
  questions.decode = [](std::span<const int32_t> ids) {
    std::string text(ids.begin(), ids.end());
    if (text.ends_with("\xC3")) text.replace(text.size() - 1, 1, "\xEF\xBF\xBD");
    return text;
  };
  WrittenAnswer answer{.ids = {'a', 0xC3}};
  EXPECT_EQ(TextSoFar(questions, answer, /*whole=*/false), "a");
  EXPECT_EQ(TextSoFar(questions, answer, /*whole=*/true), "a\xEF\xBF\xBD");
  answer.ids.push_back(0xA9);
  EXPECT_EQ(TextSoFar(questions, answer, /*whole=*/false), "a\xC3\xA9");
}

TEST(AnswersTest, PiecesAddUpAndOthersAreRefused) {
  Answers answers;
  answers.Begin(2);
  InFlight command;
  command.results = {v1::Done()};
  EXPECT_FALSE(answers.Add(command).ok());
  v1::Done& done = *command.results[0];
  for (int i = 0; i < 2; ++i) done.add_texts()->add_ids(i);
  done.mutable_texts(1)->set_ended(true);
  ASSERT_TRUE(answers.Add(command).ok());
  EXPECT_FALSE(answers.AllEnded());
  done.mutable_texts(0)->set_ended(true);
  done.mutable_texts(0)->set_cut(true);
  done.mutable_texts(1)->clear_ids();
  ASSERT_TRUE(answers.Add(command).ok());
  EXPECT_TRUE(answers.AllEnded());
  EXPECT_EQ(answers.all()[0].ids, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(answers.all()[1].ids, (std::vector<int32_t>{1}));
  EXPECT_TRUE(answers.all()[0].cut);
  EXPECT_FALSE(answers.all()[1].cut);
}

TEST(StepScriptTest, EndsWhereAskedWithASnapshotAndNeverInThePast) {
  const ScriptRules rules{.total_steps = 9, .eval_steps = 0, .save_steps = 0, .has_eval = true};
  StepScript script(rules, 0);
  script.EndAt(2);
  EXPECT_EQ(Play(script), "e0 t0 t1 s2 ");
  StepScript late(rules, 4);
  late.Advance();
  late.EndAt(1);
  EXPECT_EQ(Play(late), "s5 ");
  StepScript cut(rules, 4);
  cut.Advance();
  cut.EndNow();
  EXPECT_EQ(Play(cut), "");
}

TEST(StepScriptTest, ARequestedSnapshotComesAtThisBoundary) {
  StepScript script({.total_steps = 3, .eval_steps = 1, .save_steps = 0, .has_eval = true}, 0);
  script.Advance();  // e0
  script.Advance();  // t0
  script.Advance();  // e1
  script.RequestSnapshot();
  EXPECT_EQ(Play(script), "s1 t1 e2 t2 e3 s3 ");
}

// What Play does while a checkpoint is being written, up to boundary `until`.
std::string PlayWhileSaving(StepScript& script, int64_t until) {
  script.SetSaving(true);
  std::string out;
  while (script.next() == Action::kTrain && script.step() < until) {
    out += "t" + std::to_string(script.step()) + " ";
    script.Advance();
  }
  script.SetSaving(false);
  return out;
}

TEST(StepScriptTest, ASnapshotDueWhileOneIsWrittenIsOwedAndTakenOnce) {
  StepScript script({.total_steps = 12, .save_steps = 2}, 0);
  EXPECT_EQ(PlayWhileSaving(script, 2), "t0 t1 ");
  EXPECT_FALSE(script.owes_snapshot());  // that of this boundary is still to come
  EXPECT_EQ(PlayWhileSaving(script, 7), "t2 t3 t4 t5 t6 ");
  EXPECT_TRUE(script.owes_snapshot());
  EXPECT_EQ(Play(script), "s7 t7 s8 t8 t9 s10 t10 t11 s12 ");
}

TEST(StepScriptTest, TheLastAndARequestedSnapshotWaitForTheOneBeingWritten) {
  StepScript script({.total_steps = 3, .save_steps = 100}, 2);
  script.Advance();  // t2
  script.SetSaving(true);
  EXPECT_EQ(script.next(), Action::kSnapshot);
  StepScript drained({.total_steps = 9, .save_steps = 1}, 1);
  EXPECT_EQ(PlayWhileSaving(drained, 4), "t1 t2 t3 ");
  drained.SetSaving(true);
  drained.EndAt(4);
  EXPECT_EQ(drained.next(), Action::kSnapshot);
  StepScript best({.total_steps = 9}, 1);
  best.Advance();
  best.SetSaving(true);
  best.RequestSnapshot();
  EXPECT_EQ(best.next(), Action::kSnapshot);
}

TEST(StepScriptTest, ATestedSaveFollowsTheFirstStep) {
  const ScriptRules rules{.total_steps = 3, .save_steps = 2, .test_save = true};
  EXPECT_EQ(Play(StepScript(rules, 0)), "t0 s1 t1 s2 t2 s3 ");
  EXPECT_EQ(Play(StepScript(rules, 1)), "t1 s2 t2 s3 ");
}

v1::Done Answer(double norm, double loss, std::vector<int64_t> bins, int64_t targets) {
  v1::Done done;
  done.set_grad_norm(norm);
  done.set_global_loss_sum(loss);
  done.set_applied(true);
  done.set_targets(targets);
  for (const int64_t bin : bins) done.add_bin_ids(bin);
  return done;
}

TEST(CommandWindowTest, IsFullAtTheCreditsAndOpensWithTheSlowestRank) {
  CommandWindow window(2, 2);
  window.Push(Action::kTrain, 0);
  EXPECT_FALSE(window.full());
  window.Push(Action::kTrain, 1);
  EXPECT_TRUE(window.full());
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.Receive(0, 2, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_FALSE(window.PopComplete());
  EXPECT_TRUE(window.full());
  EXPECT_EQ(window.Receive(1, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.PopComplete()->seq, 1u);
  EXPECT_FALSE(window.full());
}

// Invariant driver-2.
TEST(CommandWindowTest, RefusesDuplicatesAndGapsWithoutChange) {
  CommandWindow window(1, 3);
  window.Push(Action::kTrain, 0);
  window.Push(Action::kTrain, 1);
  EXPECT_EQ(window.Receive(0, 2, {}), CommandWindow::Receipt::kOutOfOrder);
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kAccepted);
  EXPECT_EQ(window.Receive(0, 1, {}), CommandWindow::Receipt::kDuplicate);
  EXPECT_EQ(window.Receive(0, 3, {}), CommandWindow::Receipt::kOutOfOrder);
  EXPECT_EQ(window.PopComplete()->step, 0);
}

class CommitStepTest : public testing::Test {
 protected:
  InFlight command_{.seq = 1,
                    .step = 7,
                    .loss_denominator = 10,
                    .tokens = 50,
                    .bins = {{1, 2}, {3}},
                    .results = {Answer(0.5, 20.0, {1, 2}, 6), Answer(0.5, 20.0, {3}, 4)}};
};

TEST_F(CommitStepTest, DividesTheGlobalLossByTheTargetsOfTheBatch) {
  const StepResult result = *CommitStep(command_);
  EXPECT_EQ(result.loss, 2.0);
  EXPECT_EQ(result.grad_norm, 0.5);
  EXPECT_EQ(result.tokens, 50);
  EXPECT_TRUE(result.applied);
}

// Invariant driver-4.
TEST_F(CommitStepTest, NamesRanksThatDisagreeInTheLastBit) {
  command_.results[1]->set_grad_norm(std::nextafter(0.5, 1.0));
  const auto result = CommitStep(command_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(result.status().message().find("rank 1"), absl::string_view::npos);
}

TEST_F(CommitStepTest, RefusesOtherBinsTargetsLossOrUpdate) {
  InFlight other = command_;
  other.results[1]->set_bin_ids(0, 9);
  EXPECT_FALSE(CommitStep(other).ok());
  other = command_;
  other.results[1]->set_targets(5);
  EXPECT_FALSE(CommitStep(other).ok());
  other = command_;
  other.results[0]->set_global_loss_sum(21.0);
  EXPECT_FALSE(CommitStep(other).ok());
  other = command_;
  other.results[1]->set_applied(false);
  EXPECT_FALSE(CommitStep(other).ok());
}

TEST_F(CommitStepTest, EqualNansAreEqualBits) {
  for (auto& done : command_.results) done->set_grad_norm(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(CommitStep(command_).ok());
}

TEST(RunStateTest, ThreeSkippedInARowAreAllowedFourAreNot) {
  checkpoint::SkippedSteps skipped;
  for (int64_t step = 0; step < 3; ++step) skipped.Add(step, true);
  EXPECT_FALSE(skipped.TooMany());
  skipped.Add(3, true);
  EXPECT_TRUE(skipped.TooMany());
  skipped.Add(4, false);
  EXPECT_FALSE(skipped.TooMany());
  EXPECT_EQ(skipped.total, 4);
}

TEST(RunStateTest, OnePercentOfAThousandStepsIsTheLimit) {
  checkpoint::SkippedSteps skipped;
  for (int64_t step = 0; step < 1000; ++step) skipped.Add(step, step % 100 == 0);
  EXPECT_FALSE(skipped.TooMany());
  skipped.Add(1000, false);
  skipped.Add(1001, true);  // steps 100, 200 .. 900 and 1001: step 0 left the window
  EXPECT_FALSE(skipped.TooMany());
  skipped.Add(1002, false);
  skipped.Add(1003, true);
  EXPECT_TRUE(skipped.TooMany());
}

TEST(RunStateTest, PatienceCountsEvaluationsWithoutImprovement) {
  checkpoint::EarlyStop stop;
  EXPECT_TRUE(stop.Add({0, 2.0}));
  EXPECT_FALSE(stop.Add({1, 2.0}));
  EXPECT_FALSE(stop.Exhausted(2));
  EXPECT_FALSE(stop.Add({2, 2.5}));
  EXPECT_TRUE(stop.Exhausted(2));
  EXPECT_FALSE(stop.Exhausted(std::nullopt));
  EXPECT_TRUE(stop.Add({3, 1.0}));
  EXPECT_EQ(stop.without_improvement, 0);
}

TEST(StepTimingTest, HangLimitFollowsTheMedianAfterWarmUp) {
  using std::chrono::milliseconds;
  StepTiming timing;
  EXPECT_EQ(timing.HangLimit(milliseconds(300), milliseconds(30)), milliseconds(300));
  for (int i = 0; i < 3; ++i) timing.Add(0, 20'000'000'000, 100);
  EXPECT_EQ(timing.HangLimit(milliseconds(300), milliseconds(30000)), milliseconds(100000));
  EXPECT_EQ(timing.CollectiveLimit(milliseconds(300), milliseconds(7000)), milliseconds(40000));
  EXPECT_DOUBLE_EQ(timing.tokens_per_second(), 5.0);
}

TEST(ErrorsTest, TheRootCauseIsNotTheEchoOfAPeer) {
  const v1::Error echo = MakeError(absl::UnavailableError("peer gone"), {.rank = 0});
  const v1::Error cause = MakeError(absl::InternalError("segfault"), {.rank = 1});
  const v1::Error user = MakeError(absl::FailedPreconditionError("frozen"), {.rank = 2});
  EXPECT_EQ(RootCause({echo, cause}).rank(), 1);
  EXPECT_EQ(RootCause({echo, cause, user}).rank(), 2);
  EXPECT_EQ(RootCause({echo}).rank(), 0);
  EXPECT_EQ(user.kind(), v1::ERROR_KIND_USER);
  EXPECT_EQ(echo.kind(), v1::ERROR_KIND_SYSTEM);
  EXPECT_EQ(ToStatus(user).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GangTest, MfuIsOfAllRanksAndUnknownWhereAPeakIs) {
  Gang gang;
  gang.flops_per_token = 3e9;
  gang.ranks.resize(2);
  for (Rank& rank : gang.ranks) rank.peak_flops = 1e15;
  EXPECT_DOUBLE_EQ(gang.Mfu(200000), 0.3);
  gang.ranks[1].peak_flops = 0;
  EXPECT_EQ(gang.Mfu(200000), 0);
}

}  // namespace
}  // namespace coxswain::driver
