// One attempt to run alone: from reserved workers to a gang that forms.
#include "controller/driver/readoption/job_attempt.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/failure/errors.h"
#include "tests/sim/fakes/synthetic_curriculum.h"
#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class JobAttemptTest : public support::JobPartTest {
 protected:
  JobAttemptTest() {
    row_.job.set_state(v1::JOB_STATE_ADMITTED);
    row_.job.set_epoch(1);
    spec_.resume = "auto";
    spec_.save_steps = 2;
    spec_.save_total_limit = 2;
    lane_work_.plan = [this](const PlanInput&) -> absl::StatusOr<GangPlan> {
      RETURN_IF_ERROR(plan_error_);
      GangPlan plan;
      plan.bytes = "bytes of the plan";
      plan.hash = "hash";
      return plan;
    };
  }
  JobAttempt& attempt() {
    if (attempt_ == nullptr) {
      MakeGang(2);
      checkpoints_ = std::make_unique<JobCheckpoints>(job());
      attempt_ = std::make_unique<JobAttempt>(job(), checkpoints_.get());
    }
    return *attempt_;
  }
  void Begin() {
    JobAttempt& attempt = this->attempt();
    attempt.Begin(curriculum_, registry_.All());
    RunFor(1);
  }
  std::string Recipe() const { return ToHex(curriculum_->recipe_hash()); }

  absl::Status plan_error_;
  const std::shared_ptr<const Curriculum> curriculum_ =
      std::make_shared<sim::SyntheticCurriculum>(sim::SyntheticShape{});

 private:
  std::unique_ptr<JobCheckpoints> checkpoints_;
  std::unique_ptr<JobAttempt> attempt_;
};

// Invariant driver-1.
TEST_F(JobAttemptTest, PlanAndEpochAreDurableWhenTheGangForms) {
  Begin();
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"planned"});
  EXPECT_EQ(job().session->gang().plan_bytes, "bytes of the plan");
  EXPECT_EQ(*store_.PlanBytes("hash"), "bytes of the plan");
  const std::vector<store::EpochRow> epochs = store_.Epochs("job").value();
  ASSERT_EQ(epochs.size(), 1u);
  EXPECT_EQ(epochs[0].epoch, 1u);
  EXPECT_EQ(epochs[0].world_size, 2);
  EXPECT_EQ(attempt().start_state().step, 0);
}

// Invariant driver-1.
TEST_F(JobAttemptTest, AStoreThatTakesNoNumbersFailsTheAttempt) {
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  Begin();
  ASSERT_EQ(heard_.told().size(), 2u);
  EXPECT_EQ(heard_.told()[0], "planned");
  EXPECT_NE(heard_.told()[1].find("attempt failed: "), std::string::npos) << heard_.told()[1];
  EXPECT_NE(heard_.told()[1].find("disk full"), std::string::npos) << heard_.told()[1];
}

TEST_F(JobAttemptTest, APlanThatCannotBeMadeFailsTheAttempt) {
  plan_error_ = absl::UnavailableError("the base model is away");
  Begin();
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"attempt failed: the base model is away"});
}

TEST_F(JobAttemptTest, WithoutTheJobThatItResumesItIsHopeless) {
  spec_.resume = "other";
  hooks_.resolve_checkpoints =
      [](const std::string& resume) -> absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>> {
    return absl::NotFoundError("there is no job " + resume);
  };
  Begin();
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"hopeless: there is no job other"});
}

TEST_F(JobAttemptTest, ItBeginsFromTheNewestCheckpoint) {
  Save(2, Recipe());
  Save(4, Recipe());
  Begin();
  EXPECT_EQ(attempt().start_state().step, 4);
  EXPECT_EQ(Told("Resuming"), std::vector<std::string>{"from /out/checkpoint-4"});
}

// Invariant driver-7.
TEST_F(JobAttemptTest, ACheckpointInWhichARankFoundDamageIsPassedOverUntilItIsWrittenAnew) {
  Save(2, Recipe());
  Save(4, Recipe());
  Begin();
  const v1::Error damage = failure::MakeError(
      absl::DataLossError("/out/checkpoint-4/rank-0.shard: block 0 differs"), {.phase = "prepare"});
  EXPECT_TRUE(attempt().SetAside(damage));
  EXPECT_FALSE(attempt().SetAside(damage)) << "it is known";
  plan_error_ = absl::UnavailableError("no plan");  // the next drafts end there
  Begin();
  ASSERT_EQ(Told("Warning").size(), 1u);
  EXPECT_NE(Told("Warning")[0].find("/out/checkpoint-4"), std::string::npos) << Told("Warning")[0];
  attempt().WrittenAnew(4);
  Begin();
  EXPECT_EQ(Told("Warning").size(), 1u);
}

TEST_F(JobAttemptTest, AStopTellsNobody) {
  attempt().Begin(curriculum_, registry_.All());
  attempt().Stop();
  RunFor(1000);
  EXPECT_TRUE(heard_.told().empty());
}

}  // namespace
}  // namespace coxswain::driver
