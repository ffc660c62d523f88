// What a controller records of a gang, and what the next one awaits, without the rest of a job.
#include "controller/driver/readoption/job_readoption.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/driver/records/store_rows.h"
#include "controller/driver/training/training.h"
#include "tests/sim/fakes/synthetic_curriculum.h"
#include "tests/support/job_part_test.h"

namespace coxswain::driver {
namespace {

class JobReadoptionTest : public support::JobPartTest {
 protected:
  JobReadoptionTest() {
    row_.job.set_state(v1::JOB_STATE_RUNNING);
    row_.job.set_epoch(1);
  }
  // As a controller leaves the store whose gang of two has begun to train.
  void RecordGang() {
    MakeGang(2);
    gang::GangSession& session = *job().session;
    session.Number(1, "hash", "bytes of the plan", 0);
    journal_.Add(store::PlanRow{"hash", "bytes of the plan"});
    journal_.Add(EpochRowOf(session.gang()));
    const Training training(&session.gang(),
                            {.curriculum = std::make_shared<sim::SyntheticCurriculum>(
                                 sim::SyntheticShape{.eval_bins = 0}),
                             .rules = {.total_steps = 12}},
                            {});
    JobReadoption(job()).Record(session, training);
    ASSERT_TRUE(journal_.Flush().ok());
  }
};

// Invariant driver-5.
TEST_F(JobReadoptionTest, ARecordedGangIsAwaitedAndGivenUpInTime) {
  RecordGang();
  JobReadoption readoption(job());
  readoption.LookForGang(/*trains=*/true);
  ASSERT_TRUE(readoption.awaits());
  EXPECT_FALSE(readoption.complete());
  EXPECT_EQ(readoption.epoch(), 1u);
  EXPECT_EQ(job().record.job().readoption().ranks(), 2);
  RunFor(deps_.settings.readopt_timeout.count() - 1);
  EXPECT_TRUE(heard_.told().empty());
  RunFor(1);
  ASSERT_EQ(heard_.told().size(), 1u);
  EXPECT_NE(heard_.told()[0].find("gang lost: "), std::string::npos);
  EXPECT_NE(heard_.told()[0].find("did not register within 20000 ms of the controller's start"),
            std::string::npos)
      << heard_.told()[0];
}

TEST_F(JobReadoptionTest, WhatIsDroppedIsAwaitedNoMoreUnderTheNextControllerToo) {
  RecordGang();
  JobReadoption readoption(job());
  readoption.LookForGang(true);
  readoption.Drop("its job is cancelled");
  EXPECT_FALSE(readoption.awaits());
  EXPECT_FALSE(job().record.job().has_readoption());
  RunFor(60'000);
  EXPECT_TRUE(heard_.told().empty());
  ASSERT_TRUE(journal_.Flush().ok());
  readoption.LookForGang(true);
  EXPECT_FALSE(readoption.awaits());
}

TEST_F(JobReadoptionTest, AJobThatRecoversHasNoGangToAwait) {
  row_.job.set_state(v1::JOB_STATE_RECOVERING);
  RecordGang();
  JobReadoption readoption(job());
  readoption.LookForGang(true);
  EXPECT_FALSE(readoption.awaits());
}

TEST_F(JobReadoptionTest, ARecordThatCannotBeReadEndsTheGang) {
  RecordGang();
  store::Batch batch;
  batch.positions.push_back({"job", 1, 0, "noise"});
  ASSERT_TRUE(store_.Commit(batch).ok());
  JobReadoption readoption(job());
  readoption.LookForGang(true);
  EXPECT_FALSE(readoption.awaits());
  ASSERT_EQ(Told("ReadoptionFailed").size(), 1u);
  EXPECT_NE(Told("ReadoptionFailed")[0].find("gang 1 does not go on: "), std::string::npos);
}

}  // namespace
}  // namespace coxswain::driver
