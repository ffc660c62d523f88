// The pure rules of a run: order of commands, answers, commit, rates.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "controller/checkpoint/run_state.h"
#include "controller/driver/training/answers.h"
#include "controller/driver/training/commit_step.h"
#include "controller/driver/training/step_rate.h"
#include "controller/driver/training/step_script.h"

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

TEST(StepScriptTest, AStepThatLeavesASnapshotBehindIsTold) {
  const ScriptRules rules{.total_steps = 9, .eval_steps = 0, .save_steps = 2};
  StepScript script(rules, {.step = 2, .end = 9, .snapshotted = false});
  EXPECT_FALSE(script.LeavesSnapshot()) << "it is taken";
  script.SetSaving(true);
  EXPECT_TRUE(script.LeavesSnapshot());
  script.Advance();
  EXPECT_TRUE(script.owes_snapshot());
  EXPECT_FALSE(script.LeavesSnapshot()) << "it is owed already";
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
  gang::InFlight command;
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

v1::Done Answer(double norm, double loss, const std::vector<int64_t>& bins, int64_t targets) {
  v1::Done done;
  done.set_grad_norm(norm);
  done.set_global_loss_sum(loss);
  done.set_applied(true);
  done.set_targets(targets);
  for (const int64_t bin : bins) done.add_bin_ids(bin);
  return done;
}

class CommitStepTest : public testing::Test {
 protected:
  const Batch batch_{.step = 7,
                     .targets = 10,
                     .denominator = 10,
                     .tokens = 50,
                     .bins = {{1, 2}, {3}},
                     .forms = {}};
  gang::InFlight command_{.seq = 1,
                          .results = {Answer(0.5, 20.0, {1, 2}, 6), Answer(0.5, 20.0, {3}, 4)}};
};

TEST_F(CommitStepTest, DividesTheGlobalLossByTheTargetsOfTheBatch) {
  const StepResult result = *CommitStep(batch_, command_);
  EXPECT_EQ(result.loss, 2.0);
  EXPECT_EQ(result.grad_norm, 0.5);
  EXPECT_EQ(result.tokens, 50);
  EXPECT_TRUE(result.applied);
}

// Every rank has the sums of all: those of the first are taken.
TEST_F(CommitStepTest, TakesTheUseOfExpertsOfAModelThatHasSome) {
  EXPECT_FALSE(CommitStep(batch_, command_)->experts.has_value());
  for (auto& done : command_.results) done->mutable_experts()->set_load_ratio(1.5);
  EXPECT_EQ(CommitStep(batch_, command_)->experts->load_ratio(), 1.5);
}

// Of a loss of documents the denominator is pairs, and reports are means over all ranks' pairs.
TEST_F(CommitStepTest, DividesALossOfPairsByThePairs) {
  EXPECT_FALSE(CommitStep(batch_, command_)->preference.has_value());
  const auto report = [](v1::Done& done, int64_t pairs, double reward) {
    v1::Preference& sums = *done.mutable_preference();
    sums.set_pairs(true);
    sums.set_chosen(pairs);
    sums.set_rejected(pairs);
    sums.set_rewards_chosen(reward);
    sums.set_accuracies(1);
  };
  report(*command_.results[0], 3, 1.5);
  report(*command_.results[1], 1, -0.5);
  Batch pairs = batch_;
  pairs.denominator = 4;
  const StepResult result = *CommitStep(pairs, command_);
  EXPECT_EQ(result.loss, 5.0);
  EXPECT_EQ(result.preference->rewards_chosen(), 0.25);
  EXPECT_EQ(result.preference->accuracies(), 0.5);
  EXPECT_EQ(result.preference->chosen(), 4);
  EXPECT_TRUE(result.preference->pairs());
}

TEST(MeansOfTest, ASideWithoutDocumentsHasZero) {
  v1::Preference sums;
  sums.set_chosen(2);
  sums.set_logps_chosen(-8);
  EXPECT_EQ(MeansOf(sums).logps_chosen(), -4);
  EXPECT_EQ(MeansOf(sums).logps_rejected(), 0);
}

// Invariant driver-4.
TEST_F(CommitStepTest, NamesRanksThatDisagreeInTheLastBit) {
  command_.results[1]->set_grad_norm(std::nextafter(0.5, 1.0));
  const auto result = CommitStep(batch_, command_);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_NE(result.status().message().find("rank 1"), absl::string_view::npos);
}

TEST_F(CommitStepTest, RefusesOtherBinsTargetsLossOrUpdate) {
  gang::InFlight other = command_;
  other.results[1]->set_bin_ids(0, 9);
  EXPECT_FALSE(CommitStep(batch_, other).ok());
  other = command_;
  other.results[1]->set_targets(5);
  EXPECT_FALSE(CommitStep(batch_, other).ok());
  other = command_;
  other.results[0]->set_global_loss_sum(21.0);
  EXPECT_FALSE(CommitStep(batch_, other).ok());
  other = command_;
  other.results[1]->set_applied(false);
  EXPECT_FALSE(CommitStep(batch_, other).ok());
}

TEST_F(CommitStepTest, EqualNansAreEqualBits) {
  for (auto& done : command_.results) done->set_grad_norm(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(CommitStep(batch_, command_).ok());
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

TEST(RunStateTest, AnyLossIsBetterThanNone) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  checkpoint::EarlyStop stop;
  EXPECT_TRUE(stop.Add({0, kNan}));
  EXPECT_FALSE(stop.Add({1, kNan}));
  EXPECT_TRUE(stop.Add({2, 3.0}));
  EXPECT_FALSE(stop.Add({3, kNan}));
  EXPECT_EQ(stop.best->step, 2);
  EXPECT_EQ(stop.without_improvement, 1);
}

// Margins and accuracies are to rise, whatever the loss does.
TEST(RunStateTest, OtherMetricsAreToRise) {
  using checkpoint::EvalMetric;
  EXPECT_EQ(checkpoint::MetricNamed("eval_loss"), EvalMetric::kLoss);
  EXPECT_EQ(checkpoint::MetricNamed("eval_rewards/margins"), EvalMetric::kMargin);
  EXPECT_EQ(checkpoint::MetricNamed("eval_rewards/accuracies"), EvalMetric::kAccuracy);
  EXPECT_EQ(checkpoint::MetricNamed("eval_accuracy"), EvalMetric::kAccuracy);
  checkpoint::EarlyStop stop;
  const auto add = [&](int64_t step, double loss, std::optional<double> margin) {
    return stop.Add({.step = step, .loss = loss, .margin = margin}, EvalMetric::kMargin);
  };
  EXPECT_TRUE(add(0, 1.0, std::nullopt));
  EXPECT_TRUE(add(1, 2.0, 0.25)) << "any margin is better than none";
  EXPECT_FALSE(add(2, 0.5, 0.25));
  EXPECT_TRUE(add(3, 3.0, 0.5));
  EXPECT_EQ(stop.best->step, 3);
  stop = {};
  EXPECT_TRUE(stop.Add({.step = 0, .loss = 1, .accuracy = 0.5}, EvalMetric::kAccuracy));
  EXPECT_FALSE(stop.Add({.step = 1, .loss = 0, .accuracy = 0.25}, EvalMetric::kAccuracy));
}

TEST(StepRateTest, IsOfTheNewestTenSteps) {
  StepRate rate;
  EXPECT_EQ(rate.tokens_per_second(), 0);
  EXPECT_EQ(rate.seconds_per_step(), 0);
  rate.Add(1000, 1);
  for (int i = 0; i < 10; ++i) rate.Add(20, 100);
  EXPECT_DOUBLE_EQ(rate.tokens_per_second(), 5.0);
  EXPECT_DOUBLE_EQ(rate.seconds_per_step(), 20);
}

}  // namespace
}  // namespace coxswain::driver
