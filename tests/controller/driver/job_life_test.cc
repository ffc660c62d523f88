// The life of a job, each turn of it, over fake workers in virtual time.
#include <gtest/gtest.h>

#include "controller/checkpoint/checkpoint_files.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobLifeTest : public support::JobTest {
 protected:
  static std::vector<int64_t> BinsOf(const v1::RankStep& rank) {
    return {rank.bin_ids().begin(), rank.bin_ids().end()};
  }
  static Simulation::Options Asking(int64_t tokens) {
    Simulation::Options options;
    options.shape.answer_tokens = tokens;
    return options;
  }
};

TEST_F(JobLifeTest, RunsFromSubmitToArtifacts) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  const v1::Job& job = sim.Job(id);
  EXPECT_EQ(job.epoch(), 1u);
  EXPECT_EQ(job.progress().step(), 12);
  EXPECT_EQ(job.artifact_dir(), "/out/job/adapter");
  EXPECT_TRUE(job.progress().has_eval());
  EXPECT_EQ(CountOf(sim, id, "StepDone"), 12);
  EXPECT_EQ(CountOf(sim, id, "EvalDone"), 4);  // 0, 4, 8, 12
  EXPECT_EQ(CountOf(sim, id, "CheckpointCommitted"), 4);
  EXPECT_EQ(job.checkpoints_size(), 2);  // save_total_limit
  ExpectClean(sim);
}

// The first text ends by itself at 10 tokens, the second is cut at 15.
TEST_F(JobLifeTest, PromptsAreAnsweredBeforeTrainingAndAtEachEvaluation) {
  Simulation sim(Asking(15));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  const std::vector<v1::JobEvent> events = sim.Events(id, "PromptAnswered");
  ASSERT_EQ(events.size(), 8u);  // two at 0, 4, 8, 12
  const v1::PromptAnswered& first = events[0].prompt_answered();
  EXPECT_EQ(first.step(), 0);
  EXPECT_EQ(first.text(), "first");
  EXPECT_EQ(first.answer(), "0 0 0 0 0 0 0 0 0 0 ");
  EXPECT_TRUE(first.ended());
  EXPECT_EQ(events[7].prompt_answered().step(), 12);
  EXPECT_EQ(events[7].prompt_answered().tokens(), 15);
  EXPECT_FALSE(events[7].prompt_answered().ended());
  const v1::Job& job = sim.Job(id);
  ASSERT_EQ(job.samples_size(), 2);
  EXPECT_EQ(job.samples(0).first_answer(), first.answer());
  EXPECT_EQ(job.samples(0).step(), 12);
  EXPECT_EQ(job.samples(0).answer().substr(0, 6), "12 12 ");
  ExpectClean(sim);
}

// Where every answer has ended no further piece is asked for, and training goes on.
TEST_F(JobLifeTest, AnswersThatEndEarlyAreNotAskedOn) {
  Simulation sim(Asking(10000));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(CountOf(sim, id, "PromptAnswered"), 8);
  EXPECT_EQ(sim.Events(id, "PromptAnswered")[7].prompt_answered().tokens(), 20);
  EXPECT_EQ(CountOf(sim, id, "AnswerWritten"), 0);  // pieces are of jobs that only generate
  ExpectClean(sim);
}

TEST_F(JobLifeTest, AnswersSurviveTheDeathOfAWorker) {
  Simulation sim(Asking(15));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "PromptAnswered") >= 4; }, 600'000));
  sim.RestartWorker(0, 2000);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(sim.Job(id).samples(1).step(), 12);
  EXPECT_EQ(sim.Job(id).samples(1).first_step(), 0);
  ExpectClean(sim);
}

TEST_F(JobLifeTest, StepEventsCarryWhatClientsPrint) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const v1::StepDone done = sim.Events(id, "StepDone").front().step_done();
  EXPECT_EQ(done.step(), 0);
  EXPECT_GT(done.grad_norm(), 0);
  ASSERT_EQ(done.ranks_size(), 2);
  EXPECT_GT(done.ranks(0).bin_ids_size(), 0);
  EXPECT_NE(BinsOf(done.ranks(0)), BinsOf(done.ranks(1)));
}

// Here every bin costs the same, whatever its tokens.
TEST_F(JobLifeTest, BinsAreDealtByTheCostOfThePlan) {
  Simulation::Options options;
  options.work = {.per_token = 0, .per_bin = 1};
  const std::vector<driver::BinSize> bins = SyntheticCurriculum(options.shape).step_bins(0);
  const auto hands = driver::DealBins(bins, 2, options.work);
  ASSERT_NE(hands, driver::DealBins(bins, 2, {}));
  Simulation sim(options);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const v1::StepDone done = sim.Events(id, "StepDone").front().step_done();
  ASSERT_EQ(done.step(), 0);
  for (size_t rank = 0; rank < hands.size(); ++rank) {  // ids of step 0 are places
    EXPECT_EQ(BinsOf(done.ranks(static_cast<int>(rank))), hands[rank]);
  }
}

TEST_F(JobLifeTest, ALinkIsAsFastAsItsSlowestRank) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const v1::GangFormed formed = sim.Events(id, "GangFormed")[0].gang_formed();
  ASSERT_EQ(formed.links_size(), 1);
  EXPECT_EQ(formed.links(0).bytes(), 1024);
  EXPECT_EQ(formed.links(0).bytes_per_second(), 5e8);  // of two ranks
}

// Invariants driver-5 and driver-6.
TEST_F(JobLifeTest, AKilledWorkerCostsAnEpochAndTheReplayAgrees) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.Job(id).restarts(), 1);
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 1);
  EXPECT_EQ(sim.Events(id, "GangFormed")[1].gang_formed().start_step(), 3);
  ExpectClean(sim);
}

// A process that only stopped keeps its device, and nobody else has one for the job.
TEST_F(JobLifeTest, AStoppedWorkerIsEndedByItsSupervisorAndTheJobGoesOn) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.workers().Stop(1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.Job(id).restarts(), 1);
  ExpectClean(sim);
}

// Invariant driver-8: no retry.
TEST_F(JobLifeTest, AUsersErrorFailsAtOnceAndFreesTheWorkers) {
  Simulation sim({});
  v1::Error error;
  error.set_code("FAILED_PRECONDITION");
  error.set_message("group lora_b did not move");
  error.set_kind(v1::ERROR_KIND_USER);
  sim.workers().FailCommand(2, error);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(sim.Job(id).error().message(), "group lora_b did not move");
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 10'000));
}

TEST_F(JobLifeTest, PauseSavesAndResumeLosesNoStep) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_DRAINING);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
  const int64_t paused_at = sim.Job(id).progress().step();
  EXPECT_LE(paused_at, 4 + 2);  // at most the outstanding credits
  EXPECT_EQ(sim.Job(id).checkpoints(0).step(), paused_at);
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 10'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "StepDone"), 12);
  ExpectClean(sim);
}

TEST_F(JobLifeTest, ResumeWithStepsRunsExactlySoManyAndPausesAgain) {
  Simulation sim({});
  const std::string id = sim.Submit({.save_steps = 100}, /*paused=*/true);
  sim.RunFor(5000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_PAUSED);
  for (int64_t expected : {3, 6}) {
    ASSERT_TRUE((*sim.jobs().Find(id))->Resume(3).ok());
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
    EXPECT_EQ(sim.Job(id).progress().step(), expected);
    EXPECT_EQ(CountOf(sim, id, "StepDone"), expected);
  }
  EXPECT_EQ((*sim.jobs().Find(id))->Resume(-1).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobLifeTest, CancelFinishesOutstandingStepsAndNoMore) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  EXPECT_LE(sim.Job(id).progress().step(), 6);
  EXPECT_FALSE((*sim.jobs().Find(id))->Resume(0).ok());
  EXPECT_TRUE(sim.RunUntil([&] { return sim.registry().Free("cpu").size() == 2; }, 10'000));
}

TEST_F(JobLifeTest, ADrainThatDoesNotEndIsEndedByForce) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  sim.workers().Hang(1);
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED, 45'000));
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 1);
}

// Invariant controller-2: the loop goes on while a worker does not answer.
TEST_F(JobLifeTest, AHangIsFoundAndRetried) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  sim.workers().Hang(1);
  // Invariant driver-11.
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "AttemptFailed") == 1; }, 10'000));
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ASSERT_EQ(CountOf(sim, id, "AttemptFailed"), 1);
  const std::string message = sim.Events(id, "AttemptFailed")[0].message();
  EXPECT_EQ(message.find("rank 1 ("), 0u) << message;
  EXPECT_NE(message.find("train: keeps rank 0 waiting in collective #"), std::string::npos)
      << message;
  ExpectClean(sim);
}

TEST_F(JobLifeTest, ARankThatKeepsTheGangFromFormingIsNamed) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.workers().Beat(1).current().job() == id; }, 60'000));
  sim.workers().Hang(1);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ASSERT_EQ(CountOf(sim, id, "AttemptFailed"), 1);
  const std::string message = sim.Events(id, "AttemptFailed")[0].message();
  EXPECT_NE(message.find("connect: rank 1 ("), std::string::npos) << message;
  EXPECT_NE(message.find("sent nothing to the others within 120000 ms"), std::string::npos)
      << message;
  ExpectClean(sim);
}

TEST_F(JobLifeTest, AKilledControllerGoesOnUnderAHigherTermWithTheSameGang) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 5; }, 60'000));
  sim.CrashController();
  sim.RunFor(2000);
  sim.StartController();
  EXPECT_EQ(sim.registry().term(), 2u);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  ExpectClean(sim);
}

TEST_F(JobLifeTest, ACrashWhileExportingExportsAgain) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.CrashController();
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 60'000));
  EXPECT_EQ(sim.Job(id).epoch(), 1u);
  ExpectClean(sim);
}

// Invariants driver-7 (the best stays) and driver-9 (no step runs past the deciding evaluation).
TEST_F(JobLifeTest, EarlyStoppingExportsTheBestCheckpoint) {
  Simulation sim({});
  const std::string id =
      sim.Submit({.eval_steps = 1, .extra_eval = ", early_stopping_patience: 2"});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  const v1::Progress& progress = sim.Job(id).progress();
  EXPECT_LT(progress.step(), 12);
  EXPECT_EQ(CountOf(sim, id, "EarlyStopped"), 1);
  EXPECT_EQ(progress.step() - progress.best_step(), 2);
  const int64_t exported_step = sim.Events(id, "Exported")[0].exported().step();
  if (progress.best_step() > 0) {
    EXPECT_EQ(exported_step, progress.best_step());
  }
  ExpectClean(sim);
}

TEST_F(JobLifeTest, SkippedStepsAreCountedAndTooManyFailTheJobByBins) {
  {
    Simulation sim({});
    sim.workers().set_nonfinite_steps({2, 3, 4});
    const std::string id = sim.Submit({});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
    EXPECT_EQ(sim.Job(id).progress().skipped_steps(), 3);
    EXPECT_EQ(CountOf(sim, id, "StepSkipped"), 3);
  }
  Simulation sim({});
  sim.workers().set_nonfinite_steps({2, 3, 4, 5});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_NE(sim.Job(id).error().message().find("step 5: 20 21 22 23"), std::string::npos)
      << sim.Job(id).error().message();
}

// Invariant driver-2.
TEST_F(JobLifeTest, DuplicatedEventsAreDroppedAndCounted) {
  Simulation::Options options;
  options.network.duplicate_events = 1.0;
  Simulation sim(options);
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, id, "StepDone"), 12);
  ExpectClean(sim);
}

TEST_F(JobLifeTest, AnUnwritableOutputFailsTheJobWithThePath) {
  Simulation sim({});
  sim.files().FailWrites("/out", absl::PermissionDeniedError("cannot write /out/job: read-only"));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(sim.Job(id).error().message().find("/out/job"), std::string::npos);
}

TEST_F(JobLifeTest, ResumeAutoContinuesAnotherJobsCheckpointOfTheSameRecipe) {
  Simulation sim(SlowSteps());
  const std::string first = sim.Submit({.name = "a", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(first).checkpoints_size() == 1; }, 60'000));
  ASSERT_TRUE((*sim.jobs().Find(first))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_CANCELLED));
  const std::string second = sim.Submit({.name = "b", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(CountOf(sim, second, "Resuming"), 1);
  EXPECT_LT(CountOf(sim, second, "StepDone"), 12);
  const std::string third =
      sim.Submit({.name = "c", .resume = "never", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(third, v1::JOB_STATE_SUCCEEDED)) << sim.Job(third).DebugString();
  EXPECT_EQ(CountOf(sim, third, "StepDone"), 12);
}

// checkpoint.extend. The rules of the simulation hold its parameters against those of a job of 12
// steps, batch by batch.
TEST_F(JobLifeTest, AJobIsExtendedToMoreStepsWithWhatItHasLearnt) {
  Simulation sim({});
  const std::string first = sim.Submit({.name = "a", .steps = 6, .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  JobShape longer{.name = "b", .save_total_limit = 3, .output_dir = "/out/shared"};
  const std::string refused = sim.Submit(longer);
  ASSERT_TRUE(sim.RunUntilState(refused, v1::JOB_STATE_FAILED));
  EXPECT_EQ(sim.Job(refused).error().kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(sim.Job(refused).error().message().find("has 6 steps and this job's 12"),
            std::string::npos)
      << sim.Job(refused).error().message();

  longer.name = "c";
  longer.extra_checkpoint = ", extend: true";
  const std::string second = sim.Submit(longer);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(second).checkpoints_size() == 2; }, 600'000));
  sim.RestartWorker(0, 2000);  // from then on from its own checkpoints
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED)) << sim.Job(second).DebugString();
  const std::vector<v1::JobEvent> resuming = sim.Events(second, "Resuming");
  ASSERT_EQ(resuming.size(), 2u);
  EXPECT_EQ(resuming[0].resuming().step(), 6);
  EXPECT_EQ(resuming[0].resuming().extended_steps(), 6);
  EXPECT_NE(resuming[0].message().find("extends it from 6 to 12 steps"), std::string::npos);
  EXPECT_FALSE(resuming[1].resuming().has_extended_steps());
  EXPECT_EQ(sim.Events(second, "StepDone").front().step_done().step(), 6);
  EXPECT_EQ(sim.Job(second).progress().step(), 12);

  const Origin origin{.job = first, .step = 6, .total_steps = 6};
  const auto manifest = checkpoint::ReadManifest(&sim.files(), "/out/shared/checkpoint-12");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->origin, origin);
  const auto seal = ReadSeal(&sim.files(), "/out/shared/adapter");
  ASSERT_TRUE(seal.ok()) << seal.status();
  EXPECT_EQ(seal->author.origin, origin);
  ExpectClean(sim);
}

// Invariant driver-10.
TEST_F(JobLifeTest, TheSamePlaceForOutputMakesJobsTakeTurns) {
  Simulation::Options options = SlowSteps();
  options.workers = 4;
  Simulation sim(options);
  const std::string first = sim.Submit({.name = "a", .output_dir = "/out/shared"});
  const std::string second = sim.Submit({.name = "b", .output_dir = "/out/shared"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(sim.Job(second).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(first).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(JobLifeTest, PriorityThenOrderDecidesWhoRunsNext) {
  Simulation sim(SlowSteps());
  const std::string first = sim.Submit({.name = "first"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_RUNNING));
  const std::string low = sim.Submit({.name = "low"});
  const std::string high = sim.Submit({.name = "high", .priority = 5});
  ASSERT_TRUE(sim.RunUntilState(high, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(sim.Job(low).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.RunUntilState(low, v1::JOB_STATE_SUCCEEDED));
}

TEST_F(JobLifeTest, ALeavingWorkerDrainsItsJobBackIntoTheQueue) {
  Simulation::Options options = SlowSteps();
  options.workers = 3;
  Simulation sim(options);
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  v1::HeartbeatRequest leaving = sim.workers().Beat(0);
  leaving.set_draining(true);
  sim.registry().Beat(leaving, 0);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(CountOf(sim, id, "StepDone"), 12);
  ExpectClean(sim);
}

// Invariant driver-1.
TEST_F(JobLifeTest, AStoreThatCannotWriteStopsAnEpochBeforeItBegins) {
  Simulation sim({});
  sim.RunFor(2000);
  const std::string id = sim.Submit({});
  sim.RunFor(0);
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  sim.RunFor(20'000);
  EXPECT_NE(sim.Job(id).state(), v1::JOB_STATE_RUNNING);
  sim.store().set_write_error(absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

}  // namespace
}  // namespace coxswain::sim
