// Storage that fails while the data of a job is prepared.
#include <gtest/gtest.h>

#include "controller/data/early_end.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class PreparationFaultsTest : public support::JobTest {};

TEST_F(PreparationFaultsTest, AFullTokenCacheHoldsUpAJobThatNeverRan) {
  for (const absl::Status& status :
       {absl::ResourceExhaustedError("no space left"), absl::DataLossError("device failed"),
        absl::PermissionDeniedError("read-only file system")}) {
    Simulation sim({});
    sim.FailPreparation(data::OfTokenCache(status));
    const std::string id = sim.Submit({}), cancelled = sim.Submit({.name = "cancelled"});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING, 10'000)) << status;
    EXPECT_EQ(sim.Job(id).setback().kind(), v1::ERROR_KIND_STORAGE);
    ASSERT_TRUE(sim.RunUntilState(cancelled, v1::JOB_STATE_RECOVERING, 10'000));
    ASSERT_TRUE((*sim.jobs().Find(cancelled))->Cancel().ok());
    EXPECT_EQ(sim.Job(cancelled).state(), v1::JOB_STATE_CANCELLED);
    sim.RunFor(3'600'000);  // more often than any budget
    EXPECT_EQ(sim.Job(id).setback().phase(), "tokens");
    sim.FailPreparation(absl::OkStatus());
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
    EXPECT_EQ(sim.Job(id).restarts(), 0);
    ExpectClean(sim);
  }
}

}  // namespace
}  // namespace coxswain::sim
