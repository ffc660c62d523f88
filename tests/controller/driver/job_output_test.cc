// Who writes an output directory, what is swept there, and which checkpoint is exported.
#include <gtest/gtest.h>

#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/output/output_claim.h"
#include "controller/folders/seal_folder.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

constexpr char kOwner[] = "/out/job/.coxswain-owner";

class JobOutputTest : public support::JobTest {
 protected:
  static driver::OutputOwner Stranger() {
    return {.store = "0123456789abcdef",
            .term = 9,
            .job = "theirs",
            .host = "elsewhere",
            .boot = "another",
            .pid = 4711};
  }
  static std::string Leftover(Simulation& sim, const std::string& id) {
    const std::string path = checkpoint::StagingDirectory("/out/job", {id, 1, 1}, 99);
    EXPECT_TRUE(sim.files().MakeDirs(path).ok());
    return path;
  }
  static void Damage(Simulation& sim, int64_t step) {
    const std::string directory = checkpoint::CheckpointDirectory("/out/job", step);
    ASSERT_TRUE(sim.files().WriteDurably(directory + "/rank-0.shard", "bit flip").ok());
  }
};

// Invariant driver-10, between controllers.
TEST_F(JobOutputTest, TheDirectoryOfAnotherControllerRefusesTheJob) {
  Simulation sim(Steps(500));
  driver::OutputClaim theirs(&sim.files(), "/out/job", Stranger());
  ASSERT_TRUE(theirs.Take().ok());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  const std::string& message = sim.Job(id).error().message();
  for (const std::string& part : {std::string("/out/job"), std::string("job theirs"),
                                  std::string("host elsewhere"), "job " + id}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(sim.Job(id).restarts(), 0);
  EXPECT_FALSE(sim.files().Exists("/out/job/.staging"));
  EXPECT_TRUE(theirs.Renew().ok());
  theirs.Release();
  const std::string again = sim.Submit({});
  EXPECT_TRUE(sim.RunUntilState(again, v1::JOB_STATE_SUCCEEDED));
}

TEST_F(JobOutputTest, IsHeldWhileTheJobWritesAndLeftClean) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(driver::ParseOwner(*sim.files().Read(kOwner))->job, id);
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED));
  sim.RunFor(10);
  EXPECT_FALSE(sim.files().Exists(kOwner));
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  sim.RunFor(10);
  EXPECT_FALSE(sim.files().Exists(kOwner));
  EXPECT_FALSE(sim.files().Exists("/out/job/.staging"));
}

TEST_F(JobOutputTest, ALinkToTheSameDirectoryMakesJobsTakeTurns) {
  Simulation sim(Steps(500, 4));
  sim.files().Link("/alias", "/out/shared");
  const std::string first = sim.Submit({.name = "a", .output_dir = "/out/shared"});
  const std::string second = sim.Submit({.name = "b", .output_dir = "/alias"});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(sim.Job(second).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(sim.jobs().OutputHeldBy(**sim.jobs().Find(second)), *sim.jobs().Find(first));
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(first).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(sim.Job(second).restarts(), 0);
}

TEST_F(JobOutputTest, ARestartedControllerTakesItsDirectoriesBack) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() == 1; }, 60'000));
  sim.CrashController();
  ASSERT_TRUE(sim.files().Exists(kOwner));
  const std::string leftover = Leftover(sim, id);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(driver::ParseOwner(*sim.files().Read(kOwner))->term, 2u);
  EXPECT_FALSE(sim.files().Exists(leftover));  // swept with the attempt
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
}

// Somebody removed the lock file: what follows is an attempt that owns the directory again.
TEST_F(JobOutputTest, ALostDirectoryCostsAnAttempt) {
  Simulation sim(Steps(5000));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() == 1; }, 60'000));
  ASSERT_TRUE(sim.files().RemoveAll(kOwner).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto failed = sim.Events(id, "AttemptFailed");
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_NE(failed[0].message().find(".coxswain-owner was removed"), std::string::npos);
  for (const std::string& violation : sim.Violations()) ADD_FAILURE() << violation;
}

TEST_F(JobOutputTest, StagingIsSweptByTheNextSaveAndByTheEnd) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  std::string leftover = Leftover(sim, id);
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() == 1; }, 60'000));
  EXPECT_FALSE(sim.files().Exists(leftover));
  leftover = Leftover(sim, id);
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  sim.RunFor(10);
  EXPECT_FALSE(sim.files().Exists(leftover));
}

TEST_F(JobOutputTest, AControllerSweepsAtItsStartWhatNobodyElseOwns) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RUNNING));
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_CANCELLED));
  sim.RunFor(100);
  sim.CrashController();
  const std::string leftover = Leftover(sim, id);
  driver::OutputClaim theirs(&sim.files(), "/out/job", Stranger());
  ASSERT_TRUE(theirs.Take().ok());
  sim.StartController();
  sim.RunFor(100);
  EXPECT_TRUE(sim.files().Exists(leftover));  // theirs, for all we know
  sim.CrashController();
  theirs.Take().IgnoreError();  // the crash lost all locks
  theirs.Release();
  sim.StartController();
  sim.RunFor(100);
  EXPECT_FALSE(sim.files().Exists(leftover));
  EXPECT_FALSE(sim.files().Exists(kOwner));
}

TEST_F(JobOutputTest, ADamagedCheckpointIsNotExportedButTheOneBefore) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.CrashController();
  Damage(sim, 12);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  const auto warned = sim.Events(id, "Warning");
  ASSERT_EQ(warned.size(), 1u);
  EXPECT_NE(warned[0].message().find("/out/job/checkpoint-12/rank-0.shard"), std::string::npos);
  EXPECT_NE(sim.Events(id, "Exported")[0].message().find("step 9"), std::string::npos);
}

TEST_F(JobOutputTest, NoIntactCheckpointFailsTheExportAndNamesTheFiles) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.CrashController();
  Damage(sim, 12);
  Damage(sim, 9);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  for (const char* file : {"checkpoint-12/rank-0.shard", "checkpoint-9/rank-0.shard"}) {
    EXPECT_NE(sim.Job(id).error().message().find(file), std::string::npos) << file;
  }
  EXPECT_FALSE(sim.files().Exists("/out/job/adapter"));
}

TEST_F(JobOutputTest, ASecondRunGoesOnFromTheFirstAndItsManifestSaysSo) {
  Simulation sim({});
  const std::string first = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  const std::string second = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_NE(sim.Events(second, "Resuming").at(0).message().find("goes on from job " + first),
            std::string::npos);
  EXPECT_EQ(CountOf(sim, second, "Warning"), 0);
  const auto seal = ReadSeal(&sim.files(), "/out/job/adapter");
  ASSERT_TRUE(seal.ok()) << seal.status();
  EXPECT_EQ(seal->author.job, second);
  EXPECT_EQ(seal->author.origin, (Origin{.job = first, .step = 12}));
}

TEST_F(JobOutputTest, ASecondRunFromTheBeginningReplacesTheFirstAndSaysSo) {
  Simulation sim({});
  const std::string first = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  const std::string second = sim.Submit({.resume = "never"});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  EXPECT_NE(sim.Events(second, "Warning").at(0).message().find("of job " + first),
            std::string::npos);
  EXPECT_NE(sim.Events(second, "CheckpointCommitted")
                .back()
                .message()
                .find("in the place of job " + first),
            std::string::npos);
  EXPECT_EQ(checkpoint::ReadManifest(&sim.files(), "/out/job/checkpoint-12")->origin, Origin());
}

// Invariant driver-12: put there in mid-run it stands, and the job waits with its work kept.
TEST_F(JobOutputTest, AStrangersFileInThePlaceOfTheExportIsWaitedFor) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() == 1; }, 60'000));
  ASSERT_TRUE(sim.files().MakeDirs("/out/job/adapter").ok());
  ASSERT_TRUE(sim.files().WriteDurably("/out/job/adapter/notes.txt", "mine").ok());
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "ExportFailed") > 0; }, 60'000));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_EXPORTING);
  EXPECT_NE(sim.Job(id).setback().message().find("/out/job/adapter/notes.txt"), std::string::npos);
  EXPECT_EQ(*sim.files().Read("/out/job/adapter/notes.txt"), "mine");
  EXPECT_TRUE(checkpoint::VerifyCheckpoint(&sim.files(), "/out/job/checkpoint-12").ok());
  ASSERT_TRUE(sim.files().RemoveAll("/out/job/adapter").ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobOutputTest, AStrangersFileInASupersededCheckpointKeepsItThere) {
  Simulation sim(Steps(500));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).checkpoints_size() == 1; }, 60'000));
  const std::string oldest = sim.Job(id).checkpoints(0).directory();
  ASSERT_TRUE(sim.files().WriteDurably(oldest + "/notes.txt", "mine").ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(*sim.files().Read(oldest + "/notes.txt"), "mine");
  const auto warnings = sim.Events(id, "Warning");
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].message().find(oldest + "/notes.txt"), std::string::npos);
}

TEST_F(JobOutputTest, ACheckpointThatAnotherJobReplacedIsNotAnsweredFrom) {
  Simulation sim({});
  const std::string first = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  const std::string second = sim.Submit({.resume = "never"});
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  const JobShape asks{.name = "ask", .resume = first, .answer_tokens = 4};
  const std::string asked = sim.Submit(asks);
  ASSERT_TRUE(sim.RunUntilState(asked, v1::JOB_STATE_FAILED));
  EXPECT_NE(sim.Job(asked).error().message().find("job " + second + " replaced the checkpoint of " +
                                                  "job " + first),
            std::string::npos)
      << sim.Job(asked).error().message();
}

// NFS keeps the locks of a dead host for a while.
TEST_F(JobOutputTest, AnExportWaitsForTheLockOfAnEarlierStart) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_EXPORTING));
  sim.CrashController();
  auto stale = *sim.files().Hold(kOwner);
  ASSERT_NE(stale, nullptr);
  sim.StartController();
  sim.RunFor(12'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_EXPORTING);
  EXPECT_EQ(sim.Events(id, "Warning").size(), 1u);
  stale.reset();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
}

}  // namespace
}  // namespace coxswain::sim
