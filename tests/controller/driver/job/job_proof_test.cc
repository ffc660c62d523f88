// An export is read back by the gang that trained it before it gets its name.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/driver/job/job_proof.h"
#include "tests/sim/fakes/synthetic_curriculum.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobProofTest : public support::JobTest {
 protected:
  static Simulation::Options Proving() {
    Simulation::Options options;
    options.shape.proof_records = 3;
    return options;
  }
  // Where it goes, beside its checkpoints.
  static std::string AdapterOf(Simulation& sim, const std::string& id) {
    const std::string& checkpoint = sim.Job(id).checkpoints(0).directory();
    return checkpoint.substr(0, checkpoint.rfind('/')) + "/adapter";
  }
  static v1::Verification VerificationOf(Simulation& sim, const std::string& id) {
    const v1::Job job = sim.Job(id);
    EXPECT_EQ(job.verifications_size(), 1);
    return job.verifications_size() == 1 ? job.verifications(0) : v1::Verification();
  }
};

TEST_F(JobProofTest, TheFigureIsInTheJobItsEventAndTheManifest) {
  Simulation sim(Proving());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  const v1::Verification verification = VerificationOf(sim, id);
  EXPECT_TRUE(verification.verified()) << verification.reason();
  EXPECT_EQ(verification.artifact(), "adapter");
  EXPECT_EQ(verification.records(), 3);
  EXPECT_EQ(verification.targets(), 60);
  EXPECT_EQ(verification.difference(), 0);
  EXPECT_EQ(sim.Job(id).artifact_dir(), AdapterOf(sim, id));
  ASSERT_EQ(CountOf(sim, id, "Exported"), 1);
  EXPECT_EQ(sim.Events(id, "Exported")[0].exported().verifications(0).records(), 3);
  const std::string manifest =
      *sim.files().Read(sim.Job(id).artifact_dir() + "/coxswain_manifest.json");
  EXPECT_NE(manifest.find("\"outcome\": \"verified\""), std::string::npos) << manifest;
  EXPECT_EQ(sim.exports(), 1);
}

// Invariant driver-15.
TEST_F(JobProofTest, WhatDiffersFailsTheJobAndKeepsTheCheckpoint) {
  Simulation sim(Proving());
  sim.workers().set_on_load([&sim](const std::string& directory) {
    ASSERT_TRUE(sim.files().WriteDurably(directory + "/model", "12345 12").ok());
  });
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 600'000));
  const v1::Job job = sim.Job(id);
  EXPECT_EQ(job.error().phase(), "verify");
  EXPECT_NE(job.error().message().find("is beyond the bound 0, equal bits"), std::string::npos)
      << job.error().message();
  ASSERT_GT(job.checkpoints_size(), 0);
  EXPECT_TRUE(sim.files().Exists(job.checkpoints(0).directory()));
  EXPECT_FALSE(sim.files().Exists(AdapterOf(sim, id))) << "it was published";
  EXPECT_EQ(job.artifact_dir(), "");
  EXPECT_EQ(CountOf(sim, id, "Exported"), 0);
}

TEST_F(JobProofTest, WhatTheReaderRefusesFailsTheJob) {
  Simulation sim(Proving());
  sim.workers().set_on_load([&sim](const std::string& directory) {
    ASSERT_TRUE(sim.files().RemoveAll(directory + "/model").ok());
  });
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 600'000));
  EXPECT_NE(sim.Job(id).error().message().find("cannot be read back: rank 0"), std::string::npos)
      << sim.Job(id).error().message();
}

// Invariant driver-8.
TEST_F(JobProofTest, StorageThatIsGoneEndsNoJobThatHasTrained) {
  Simulation sim(Proving());
  sim.workers().set_on_load(
      [&sim](const std::string& directory) { sim.files().RemoveAll(directory).IgnoreError(); });
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_EQ(VerificationOf(sim, id).reason(), "its files were gone when it was read back");
}

TEST_F(JobProofTest, WithoutRecordsItIsSkippedByName) {
  Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  const v1::Verification verification = VerificationOf(sim, id);
  EXPECT_FALSE(verification.verified());
  EXPECT_EQ(verification.reason(), "no record has a target in its first 512 tokens");
}

// Killed where ranks have read the export and nothing is published.
TEST_F(JobProofTest, TheNextControllerVerifiesAgain) {
  Simulation sim(Proving());
  bool killed = false;
  sim.workers().set_on_load([&](const std::string&) {
    if (!std::exchange(killed, true)) sim.At(0, [&] { sim.KillController(/*down_ms=*/1000); });
  });
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_TRUE(killed);
  EXPECT_TRUE(VerificationOf(sim, id).verified()) << VerificationOf(sim, id).reason();
  EXPECT_EQ(sim.exports(), 1);
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
  EXPECT_EQ(sim.Job(id).restarts(), 0) << "the death of a controller costs none";
}

// What its ranks have answered is about files of a controller whose records are lost.
TEST_F(JobProofTest, AControllerWithARestoredStoreVerifiesWhatItWrites) {
  Simulation sim(Proving());
  const std::string id = sim.Submit({.save_steps = 100});
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() >= 2; }, 600'000));
  const store::MemoryStore backup = sim.store();
  std::vector<std::string> loaded;
  sim.workers().set_on_load([&](const std::string& directory) { loaded.push_back(directory); });
  ASSERT_TRUE(sim.RunUntil([&] { return !loaded.empty(); }, 600'000));
  sim.CrashController();
  sim.RestoreStore(backup);
  sim.RunFor(1000);
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_TRUE(VerificationOf(sim, id).verified()) << VerificationOf(sim, id).reason();
  EXPECT_EQ(CountOf(sim, id, "AttemptFailed"), 0) << sim.history();
  EXPECT_EQ(CountOf(sim, id, "ReadoptionFailed"), 1);
  EXPECT_NE(loaded.front(), loaded.back());
}

TEST_F(JobProofTest, AWorkerThatDiesMeanwhileCostsAnotherGangNotTheProof) {
  Simulation sim(Proving());
  bool killed = false;
  sim.workers().set_on_load([&](const std::string&) {
    if (!std::exchange(killed, true)) sim.At(0, [&] { sim.RestartWorker(1, /*down_ms=*/100); });
  });
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 900'000));
  EXPECT_TRUE(VerificationOf(sim, id).verified()) << VerificationOf(sim, id).reason();
  EXPECT_EQ(sim.Job(id).epoch(), 2u);
}

TEST_F(JobProofTest, APauseMeanwhilePausesAndTheProofComesWithTheNextGang) {
  Simulation sim(Proving());
  const std::string id = sim.Submit({});
  bool paused = false;
  sim.workers().set_on_load([&](const std::string&) {
    if (!std::exchange(paused, true)) sim.At(0, [&] { (void)(*sim.jobs().Find(id))->Pause(); });
  });
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_PAUSED, 600'000));
  EXPECT_FALSE(sim.files().Exists(AdapterOf(sim, id)));
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_TRUE(VerificationOf(sim, id).verified()) << VerificationOf(sim, id).reason();
}

// The part alone, with the export that it proves.
class JobProofPartTest : public support::JobPartTest {
 protected:
  JobProofPartTest() {
    store::Batch batch;
    batch.plans.push_back({"plan", "bytes of the plan"});
    EXPECT_TRUE(store_.Commit(batch).ok());
    row_.job.set_plan_hash("plan");
    spec_.export_verify = true;
    lane_work_.stage_export = [](const driver::ExportInput&) -> absl::StatusOr<StagedExport> {
      return absl::ResourceExhaustedError("disk full");
    };
    lane_work_.export_artifacts =
        [this](const driver::ExportInput& input) -> absl::StatusOr<driver::ExportedTo> {
      unverified_ = input.unverified;
      return driver::ExportedTo();
    };
  }
  void SetUp() override {
    Save(4);
    MakeGang(2);
    exported_ = std::make_unique<driver::JobExport>(job());
    proof_ = std::make_unique<driver::JobProof>(job(), exported_.get());
  }
  // A training that is over, and whose export has so many records to be proved by.
  void Want(int64_t records) {
    curriculum_ = std::make_shared<SyntheticCurriculum>(
        SyntheticShape{.steps = 4, .eval_bins = 0, .proof_records = records});
    driver::TrainingEvents events;
    events.proof.wanted = [] {};
    training_ = std::make_unique<driver::Training>(
        &job().session->gang(), driver::TrainingArgs{.curriculum = curriculum_}, std::move(events));
    proof_->Want({.training = training_.get(), .curriculum = curriculum_});
  }
  // Why the export that follows is not verified.
  std::string WhyUnverified() {
    exported_->Start();
    RunFor(1);
    return unverified_;
  }

  std::unique_ptr<driver::JobExport> exported_;
  std::unique_ptr<driver::JobProof> proof_;
  std::shared_ptr<const driver::Curriculum> curriculum_;
  std::unique_ptr<driver::Training> training_;
  std::string unverified_;
};

TEST_F(JobProofPartTest, WithoutRecordsTheTrainingEndsAtOnce) {
  Want(0);
  EXPECT_TRUE(training_->proof().ended());
  EXPECT_EQ(WhyUnverified(), "no record has a target in its first 512 tokens");
}

// Invariant driver-15.
TEST_F(JobProofPartTest, WhatCannotBeWrittenAsideIsSkippedByName) {
  Want(3);
  EXPECT_FALSE(training_->proof().ended());
  RunFor(1);
  EXPECT_TRUE(training_->proof().ended());
  EXPECT_FALSE(training_->proof().begun());
  EXPECT_EQ(WhyUnverified(), "it could not be written while the gang was there: disk full");
}

TEST_F(JobProofPartTest, AGangWithCommandsAboutOtherFilesIsLost) {
  job().session->Readopt(/*taken=*/1, /*sent=*/3);
  Want(3);
  EXPECT_TRUE(heard_.told().empty()) << "within the call of a program";
  RunFor(1);
  EXPECT_EQ(heard_.told(),
            std::vector<std::string>{
                "gang lost: an export was being read back, which the next gang does again"});
  EXPECT_FALSE(training_->proof().ended());
}

TEST_F(JobProofPartTest, AStopAsksNothingAnyMore) {
  Want(3);
  proof_->Stop();
  RunFor(1);
  EXPECT_FALSE(training_->proof().ended());
}

}  // namespace
}  // namespace coxswain::sim
