// Both programs, order by order and answer by answer: no clock, no worker.
#include "controller/driver/training/training.h"

#include <gtest/gtest.h>

#include "controller/driver/training/generation.h"
#include "tests/sim/fakes/synthetic_curriculum.h"

namespace coxswain::driver {
namespace {

constexpr int64_t kAllPieces = 1000;
constexpr v1::CommandKind kTrain = v1::COMMAND_KIND_TRAIN;
constexpr v1::CommandKind kEval = v1::COMMAND_KIND_EVAL;
constexpr v1::CommandKind kSnapshot = v1::COMMAND_KIND_SNAPSHOT;
constexpr v1::CommandKind kGenerate = v1::COMMAND_KIND_GENERATE;

std::string Letter(const gang::Order& order) {
  return std::string(1, order.phase == std::string("stop") ? '.' : order.phase[0]) +
         std::to_string(order.step);
}

// A gang of two that answers each order in a second, as the bins it was sent.
class Player {
 public:
  explicit Player(gang::Program* program) : program_(program) {}

  // Sends what may go out now, at most so many.
  std::string Send(int most = 1000) {
    std::string sent;
    while (most-- > 0) {
      std::optional<gang::Order> order = program_->Next();
      if (!order) break;
      sent += Letter(*order) + " ";
      if (order->command.has_stop()) break;
      orders_.push_back(*std::move(order));
    }
    return sent;
  }
  // Answers the oldest order.
  std::optional<v1::Error> Answer(double norm = 0.5) {
    gang::InFlight command{.turn = orders_.front().turn,
                           .phase = orders_.front().phase,
                           .step = orders_.front().step,
                           .began_ns = now_ns_,
                           .done_ns = now_ns_ + 1'000'000'000};
    now_ns_ = command.done_ns;
    for (int rank = 0; rank < 2; ++rank) {
      v1::Command own;
      if (orders_.front().fill) orders_.front().fill(rank, &own);
      const v1::Bins& bins = own.has_train() ? own.train().bins() : own.eval().bins();
      v1::Done& done = command.results.emplace_back(v1::Done()).value();
      *done.mutable_bin_ids() = bins.bin_ids();
      for (const int32_t length : bins.document_lengths()) {
        done.set_targets(done.targets() + length);
      }
      done.set_loss_sum(eval_loss);
      done.set_global_loss_sum(10);
      done.set_grad_norm(norm);
      done.set_applied(norm < 1);
      for (int i = 0; i < 2; ++i) done.add_texts()->set_ended(ended);
    }
    orders_.pop_front();
    return program_->Take(command);
  }

  double eval_loss = 100;
  bool ended = false;  // answers, with the next piece
  size_t outstanding() const { return orders_.size(); }

 private:
  gang::Program* const program_;
  std::deque<gang::Order> orders_;
  int64_t now_ns_ = 0;
};

class TrainingTest : public testing::Test {
 protected:
  std::unique_ptr<Training> Make(sim::SyntheticShape shape, ScriptRules rules,
                                 std::optional<int64_t> patience = {},
                                 std::optional<TrainingPosition> position = {},
                                 std::optional<int64_t> drains_at = {},
                                 std::vector<v1::CommandKind> sent_before = {}) {
    gang_.ranks.resize(2);
    rules.total_steps = shape.steps;
    rules.has_eval = shape.eval_bins > 0;
    rules.has_prompts = shape.answer_tokens > 0;
    TrainingEvents events;
    events.on_step = [this](const StepResult& result, const Batch&, const gang::InFlight& command,
                            const checkpoint::RunState& state) -> std::optional<v1::Error> {
      told_ += "t" + std::to_string(result.step) + " ";
      EXPECT_EQ(state.step, result.step + 1);
      EXPECT_EQ(command.seconds(), 1);
      return std::nullopt;
    };
    events.on_eval = [this](const checkpoint::EvalPoint& point,
                            const std::optional<v1::Preference>&, bool best, const auto&) {
      told_ += std::string(best ? "E" : "e") + std::to_string(point.step) + " ";
    };
    events.on_answers = [this](int64_t step, const Answers&, double seconds, bool whole) {
      told_ += std::string(whole ? "A" : "a") + std::to_string(step) + " ";
      answer_seconds_ = seconds;
    };
    events.on_snapshot = [this](Training* training, int64_t) {
      told_ += "s" + std::to_string(training->state().step) + " ";
    };
    events.on_snapshot_delayed = [](int64_t) {};
    return std::make_unique<Training>(
        &gang_,
        TrainingArgs{.curriculum = std::make_shared<sim::SyntheticCurriculum>(shape),
                     .rules = rules,
                     .start = position ? position->run : checkpoint::RunState(),
                     .patience = patience,
                     .drains_at = drains_at,
                     .work = {},
                     .position = position,
                     .sent_before = std::move(sent_before)},
        std::move(events));
  }

  gang::Gang gang_;
  std::string told_;
  double answer_seconds_ = 0;
};

// Also where a checkpoint that was being written kept the next one back.
TEST_F(TrainingTest, OneThatGoesOnAtAPositionSendsTheSameCommands) {
  const sim::SyntheticShape shape{.steps = 7, .eval_bins = 1};
  const ScriptRules rules{.eval_steps = 2, .save_steps = 2};
  const auto first = Make(shape, rules);
  Player gang(first.get());
  // Two steps are on their way while the checkpoint of the second is written.
  EXPECT_EQ(gang.Send(4), "e0 t0 t1 e2 ");
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(4), "s2 t2 t3 e4 ");
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(2), "t4 t5 ");
  first->SaveFinished();
  const auto position = ParsePosition(first->Position()->state, first->state().evals);
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(position->run, first->state());
  EXPECT_FALSE(position->saving);
  const std::string rest = gang.Send(4);
  EXPECT_EQ(rest, "e6 s6 t6 e7 ");

  const auto second = Make(shape, rules, {}, *position, {}, {kTrain, kEval, kTrain, kTrain});
  Player other(second.get());
  EXPECT_EQ(other.Send(4), "t3 e4 t4 t5 ");  // not s4: it was owed
  EXPECT_EQ(other.Send(4), rest);
  EXPECT_EQ(second->state(), first->state());
}

// Of two controllers the first one left no record of its checkpoints.
TEST_F(TrainingTest, CheckpointsBeforeTheLastSnapshotThatRanksHaveAreNotWrittenAgain) {
  const sim::SyntheticShape shape{.steps = 9, .eval_bins = 0};
  const ScriptRules rules{.save_steps = 2};
  const auto first = Make(shape, rules);
  Player gang(first.get());
  EXPECT_EQ(gang.Send(3), "t0 t1 s2 ");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gang.Answer());
  const auto position = ParsePosition(first->Position()->state, {});
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(position->saving->step, 2);
  EXPECT_EQ(gang.Send(3), "t2 t3 t4 ");
  first->SaveFinished();
  EXPECT_EQ(gang.Send(1), "s5 ");
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(gang.Answer());
  first->SaveFinished();
  EXPECT_EQ(gang.Send(4), "t5 s6 t6 t7 ");

  told_.clear();
  const auto second = Make(shape, rules, {}, *position, {},
                           {kTrain, kTrain, kTrain, kSnapshot, kTrain, kSnapshot, kTrain, kTrain});
  EXPECT_FALSE(second->saving());  // of step 2
  Player other(second.get());
  EXPECT_EQ(other.Send(8), "t2 t3 t4 s5 t5 s6 t6 t7 ");
  EXPECT_TRUE(second->saving());  // of step 6
  EXPECT_EQ(other.Send(), "t8 ");
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(other.Answer());
  EXPECT_EQ(told_, "t2 t3 t4 t5 s6 t6 t7 t8 ");
  second->SaveFinished();
  EXPECT_EQ(other.Send(), "s9 ");
}

// How many pieces were asked for depended on when the answers came.
TEST_F(TrainingTest, AnswersAreAskedForAgainAsOftenAsBefore) {
  const sim::SyntheticShape shape{.steps = 1, .eval_bins = 0, .answer_tokens = 40};
  const ScriptRules rules{.eval_steps = 1};
  const auto first = Make(shape, rules);
  const auto position = ParsePosition(first->Position()->state, {});
  ASSERT_TRUE(position.ok()) << position.status();

  const auto fewer = Make(shape, rules, {}, *position, {}, {kGenerate, kGenerate, kTrain});
  Player gang(fewer.get());
  gang.ended = true;
  EXPECT_EQ(gang.Send(), "g0 g0 ");  // and waits for them
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(1), "t0 ");

  const auto more = Make(shape, rules, {}, *position, {}, {kGenerate, kGenerate, kTrain});
  Player other(more.get());
  other.ended = true;
  EXPECT_EQ(other.Send(1), "g0 ");
  EXPECT_FALSE(other.Answer());
  EXPECT_EQ(other.Send(), "g0 ");
  EXPECT_FALSE(other.Answer());
  EXPECT_EQ(other.Send(1), "t0 ");
}

// The ranks have other commands than the script: they say so.
TEST_F(TrainingTest, OneThatWasSentOtherCommandsSendsItsOwn) {
  const sim::SyntheticShape shape{.steps = 1, .eval_bins = 0, .answer_tokens = 8};
  const auto first = Make(shape, {.eval_steps = 1});
  const auto position = ParsePosition(first->Position()->state, {});
  ASSERT_TRUE(position.ok()) << position.status();
  const auto training = Make(shape, {.eval_steps = 1}, {}, *position, {}, {kTrain});
  EXPECT_EQ(Player(training.get()).Send(1), "g0 ");
}

// The drain is no part of the position: it may be older.
TEST_F(TrainingTest, OneThatGoesOnDrainingStopsWhereTheOtherDid) {
  const sim::SyntheticShape shape{.steps = 9, .eval_bins = 0};
  const auto first = Make(shape, {.save_steps = 4});
  Player gang(first.get());
  EXPECT_EQ(gang.Send(2), "t0 t1 ");
  EXPECT_FALSE(gang.Answer());
  const auto position = ParsePosition(first->Position()->state, {});
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(gang.Send(1), "t2 ");
  const int64_t boundary = first->Boundary();
  EXPECT_EQ(boundary, 3);
  first->Drain(/*with_checkpoint=*/true);
  EXPECT_EQ(gang.Send(), "s3 ");

  const auto second = Make(shape, {.save_steps = 4}, {}, *position, boundary);
  Player other(second.get());
  EXPECT_EQ(other.Send(1), "t1 ");
  second->Drain(/*with_checkpoint=*/true);  // it does already
  EXPECT_EQ(other.Send(), "t2 s3 ");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(other.Answer());
  EXPECT_EQ(other.Send(), "");
  second->SaveFinished();
  EXPECT_EQ(other.Send(), ".3 ");
  EXPECT_FALSE(second->complete());
}

TEST_F(TrainingTest, APositionIsToldBetweenEvaluationsAndKnowsTheCheckpointInProgress) {
  const auto training = Make({.steps = 4, .eval_bins = 0}, {.save_steps = 2});
  Player gang(training.get());
  EXPECT_EQ(gang.Send(3), "t0 t1 s2 ");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gang.Answer());
  const auto position = ParsePosition(training->Position()->state, {});
  ASSERT_TRUE(position.ok()) << position.status();
  ASSERT_TRUE(position->saving.has_value());
  EXPECT_EQ(position->saving->step, 2);
  const auto other = Make({.steps = 4, .eval_bins = 0}, {.save_steps = 2}, {}, *position);
  EXPECT_TRUE(other->saving());
  EXPECT_EQ(other->saving_run()->step, 2);
  EXPECT_FALSE(ParsePosition("{}", {}).ok());
}

TEST_F(TrainingTest, GoesOnDuringASaveAndEndsOnlyBehindIt) {
  const auto training = Make({.steps = 3, .eval_bins = 0}, {.save_steps = 2});
  Player gang(training.get());
  EXPECT_EQ(gang.Send(), "t0 t1 s2 t2 ");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(told_, "t0 t1 s2 ");
  EXPECT_TRUE(training->saving());
  EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), "");  // one save at a time
  training->SaveFinished();
  EXPECT_EQ(gang.Send(), "s3 ");
  EXPECT_FALSE(gang.Answer());
  EXPECT_TRUE(training->at_end());
  EXPECT_EQ(gang.Send(), "");
  training->SaveFinished();
  EXPECT_EQ(gang.Send(), ".3 ");
  EXPECT_TRUE(training->complete());
  EXPECT_STREQ(training->Ending(), "all steps are done");
  EXPECT_EQ(training->state().seconds, 3);
}

// Invariant driver-9.
TEST_F(TrainingTest, AnEvaluationThatDecidesIsABarrier) {
  const auto free = Make({.steps = 4}, {.eval_steps = 2});
  EXPECT_EQ(Player(free.get()).Send(), "e0 t0 t1 e2 t2 t3 e4 s4 ");
  const auto strict = Make({.steps = 4}, {.eval_steps = 2}, /*patience=*/1);
  Player gang(strict.get());
  EXPECT_EQ(gang.Send(), "e0 ");
  EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), "t0 t1 e2 ");
  gang.eval_loss = 50;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), "s2 t2 t3 e4 ");  // the best one is saved
  gang.eval_loss = 60;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(told_, "E0 t0 t1 E2 s2 t2 t3 e4 ");
  EXPECT_TRUE(strict->complete());
}

// Policy and base are asked for a KL term before the evaluation.
class KlCurriculum final : public sim::SyntheticCurriculum {
 public:
  using SyntheticCurriculum::SyntheticCurriculum;
  bool document_loss() const override { return true; }
  bool has_kl() const override { return true; }
  bool reference_is_base() const override { return true; }
  std::vector<int64_t> Documents(int64_t, std::span<const int64_t>, Side) const override {
    return {};
  }
};

TEST_F(TrainingTest, ADrainAmidAKlTermStops) {
  gang_.ranks.resize(2);
  const sim::SyntheticShape shape{.steps = 2, .eval_bins = 1};
  Training training(&gang_,
                    TrainingArgs{.curriculum = std::make_shared<KlCurriculum>(shape),
                                 .rules = {.total_steps = 2, .has_eval = true},
                                 .start = {},
                                 .work = {}},
                    {});
  Player gang(&training);
  ASSERT_EQ(gang.Send(1).back(), ' ');
  training.Drain(/*with_checkpoint=*/false);
  EXPECT_EQ(gang.Send(), "") << "the base is asked for as well";
  EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), ".0 ");
}

TEST_F(TrainingTest, ADrainStopsWithACheckpointOrWithout) {
  for (const bool with_checkpoint : {true, false}) {
    const auto training = Make({.steps = 9, .eval_bins = 0}, {.save_steps = 4});
    Player gang(training.get());
    EXPECT_EQ(training->Next()->step, 0);
    training->Drain(with_checkpoint);
    EXPECT_EQ(gang.Send(), with_checkpoint ? "s1 " : "");
    EXPECT_FALSE(training->complete());
  }
}

// Invariant driver-4.
TEST_F(TrainingTest, OtherBitsOfOneRankEndTheAttemptAndNameThePhase) {
  const auto training = Make({.steps = 3, .eval_bins = 0}, {});
  Player gang(training.get());
  gang.Send();
  gang::InFlight command{.phase = "train", .results = {v1::Done(), v1::Done()}};
  const std::optional<v1::Error> error = training->Take(command);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->phase(), "train");
  EXPECT_EQ(error->kind(), v1::ERROR_KIND_SYSTEM);
  EXPECT_EQ(told_, "");
}

TEST_F(TrainingTest, TooManySkippedStepsAreTheUsersAndNameTheirBins) {
  const auto training = Make({.steps = 9, .bins_per_step = 1, .eval_bins = 0}, {});
  Player gang(training.get());
  gang.Send();
  for (int step = 0; step < 3; ++step) EXPECT_FALSE(gang.Answer(/*norm=*/2));
  const std::optional<v1::Error> error = gang.Answer(/*norm=*/2);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(error->message().find("step 2: 2; step 3: 3"), std::string::npos) << error->message();
}

TEST_F(TrainingTest, AnswersEndWhereAllHaveEnded) {
  const auto training = Make({.steps = 1, .eval_bins = 0, .answer_tokens = 20}, {.eval_steps = 1});
  Player gang(training.get());
  EXPECT_EQ(training->Next()->step, 0);  // one piece of three
  gang::InFlight first{.phase = "generate", .began_ns = 5, .done_ns = 1'000'000'005};
  v1::Done& done = first.results.emplace_back(v1::Done()).value();
  for (int i = 0; i < 2; ++i) done.add_texts()->set_ended(true);
  EXPECT_FALSE(training->Take(first));
  EXPECT_EQ(told_, "A0 ");
  EXPECT_EQ(answer_seconds_, 1);
  EXPECT_EQ(gang.Send(), "t0 g1 g1 g1 s1 ");  // nothing more is asked at step 0
}

TEST_F(TrainingTest, AGenerationAsksOnceAndLeavesNothing) {
  const auto curriculum = std::make_shared<sim::SyntheticCurriculum>(
      sim::SyntheticShape{.steps = 0, .eval_bins = 0, .answer_tokens = 20});
  int told = 0;
  Generation generation(
      curriculum, [&](int64_t, const Answers&, double, bool) { ++told; },
      [](int64_t asked) { return std::to_string(asked); }, kAllPieces);
  Player gang(&generation);
  EXPECT_EQ(gang.Send(), "g0 g0 g0 ");
  EXPECT_EQ(generation.Position()->state, "3");
  EXPECT_TRUE(generation.Position()->from_first);
  EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), "");
  gang.ended = true;
  EXPECT_FALSE(gang.Answer());
  EXPECT_FALSE(gang.Answer());  // behind the last token
  EXPECT_EQ(told, 2);
  EXPECT_EQ(gang.Send(), ".0 ");
  EXPECT_TRUE(generation.complete());
  EXPECT_FALSE(generation.exports());
}

// Whose ranks may have STOP already: nothing goes out in its place.
TEST_F(TrainingTest, AGenerationThatWasToldWholeAsksForNoMoreThanItHad) {
  const auto curriculum = std::make_shared<sim::SyntheticCurriculum>(
      sim::SyntheticShape{.steps = 0, .eval_bins = 0, .answer_tokens = 40});
  Generation generation(
      curriculum, [](int64_t, const Answers&, double, bool) {},
      [](int64_t) { return std::string(); }, /*pieces=*/2);
  Player gang(&generation);
  EXPECT_EQ(gang.Send(), "g0 g0 ");
  gang.ended = true;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(gang.Answer());
  EXPECT_EQ(gang.Send(), ".0 ");
}

TEST_F(TrainingTest, ACancelledGenerationAsksNoMoreAndAPausedOneFinishes) {
  const auto curriculum = std::make_shared<sim::SyntheticCurriculum>(
      sim::SyntheticShape{.steps = 0, .eval_bins = 0, .answer_tokens = 20});
  for (const bool with_checkpoint : {true, false}) {
    Generation generation(
        curriculum, [](int64_t, const Answers&, double, bool) {},
        [](int64_t) { return std::string(); }, kAllPieces);
    Player gang(&generation);
    generation.Drain(with_checkpoint);
    EXPECT_EQ(gang.Send(), with_checkpoint ? "g0 g0 g0 " : ".0 ");
    EXPECT_EQ(generation.complete(), with_checkpoint);
  }
}

}  // namespace
}  // namespace coxswain::driver
