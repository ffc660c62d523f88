// Workers that get no new job: by a user's word, and because their host failed too often.
#include <gtest/gtest.h>

#include "controller/api/operations.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobCordonTest : public support::JobTest {
 protected:
  static bool RunToStep(Simulation& sim, const std::string& id, int64_t step) {
    return sim.RunUntil([&] { return sim.Job(id).progress().step() >= step; }, 600'000);
  }
  static std::string Explained(Simulation& sim, const std::string& id) {
    api::Context context;
    context.deps = sim.deps();
    context.jobs = &sim.jobs();
    v1::ExplainRequest request;
    request.set_job(id);
    std::string text;
    api::Explain(context, request, [&](const absl::StatusOr<v1::ExplainResponse>& response) {
      text = response.ok() ? response->text() : std::string(response.status().message());
    });
    EXPECT_TRUE(sim.RunUntil([&] { return !text.empty(); }, 10'000));
    return text;
  }
  static bool Has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

// Invariant scheduler-10.
TEST_F(JobCordonTest, ACordonedWorkerKeepsItsJobAndGetsNoOtherOverARestartToo) {
  Simulation sim(SlowSteps());
  const std::string first = sim.Submit({.name = "first", .workers = 1});
  ASSERT_TRUE(RunToStep(sim, first, 4));
  ASSERT_TRUE(sim.jobs().Cordon("sim/0", "disk swap").ok());
  ASSERT_TRUE(sim.RunUntilState(first, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(first).epoch(), 1u);
  const std::string second = sim.Submit({.name = "second"});
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(second).state(), v1::JOB_STATE_READY);
  EXPECT_TRUE(Has(Explained(sim, second), "sim/0 is cordoned (by a user: disk swap)"))
      << Explained(sim, second);
  EXPECT_TRUE(Has(Explained(sim, second), "cox workers uncordon")) << Explained(sim, second);
  const std::string alone = sim.Submit({.name = "alone", .workers = 1});  // not held up by it
  ASSERT_TRUE(sim.RunUntilState(alone, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Events(alone, "GangFormed")[0].gang_formed().workers(0), "sim/1");
  sim.CrashController();
  sim.StartController();
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(second).state(), v1::JOB_STATE_READY);
  ASSERT_TRUE(sim.jobs().Uncordon("sim/0").ok());
  ASSERT_TRUE(sim.RunUntilState(second, v1::JOB_STATE_SUCCEEDED));
  ExpectClean(sim);
}

TEST_F(JobCordonTest, AProcessThatStartsAgainIsCordonedAsTheOneBefore) {
  Simulation sim(SlowSteps(1));
  sim.RunFor(2000);
  ASSERT_TRUE(sim.jobs().Cordon("sim", "").ok());
  sim.RestartWorker(0, 500);
  const std::string id = sim.Submit({.workers = 1});
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(sim.registry().Living("cpu"), 0);
  ASSERT_TRUE(sim.jobs().Uncordon("sim").ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
}

TEST_F(JobCordonTest, WhatCannotBeCordonedOrPutBackIsNamed) {
  Simulation sim(SlowSteps());
  sim.RunFor(2000);
  EXPECT_EQ(sim.jobs().Cordon("sin", "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(sim.jobs().Uncordon("sin").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(sim.jobs().Uncordon("sim/0").ok());  // it may have jobs already
  ASSERT_TRUE(sim.jobs().Cordon("sim/0", "").ok());
  ASSERT_TRUE(sim.jobs().Cordon("sim", "").ok());
  EXPECT_TRUE(sim.registry().Free("cpu").empty());
  EXPECT_EQ(sim.jobs().Uncordon("sim/1").code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(sim.jobs().Uncordon("sim").ok());  // and its workers' own
  EXPECT_EQ(sim.registry().Free("cpu").size(), 2u);
}

// Invariant api-6.
TEST_F(JobCordonTest, ACordonThatTheStoreDidNotTakeDidNotHappen) {
  Simulation sim(SlowSteps());
  sim.RunFor(2000);
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(sim.jobs().Cordon("sim/0", "").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(sim.registry().Free("cpu").size(), 2u);
  sim.store().set_write_error(absl::OkStatus());
}

TEST_F(JobCordonTest, AHostThatFailsAJobThreeTimesIsLeftOutUntilItIsPutBack) {
  Simulation sim(SlowSteps());
  const std::string id = sim.Submit({});
  ASSERT_TRUE(RunToStep(sim, id, 4));
  sim.workers().FailPrepare(absl::ResourceExhaustedError("weights need 90 GiB, 80 GiB are free"));
  sim.RestartWorker(1, 500);
  ASSERT_TRUE(sim.RunUntil([&] { return CountOf(sim, id, "HostLeftOut") == 1; }, 300'000));
  const v1::JobEvent event = sim.Events(id, "HostLeftOut")[0];
  EXPECT_EQ(event.host_left_out().host(), "sim");
  EXPECT_EQ(event.host_left_out().workers_size(), 2);
  EXPECT_TRUE(Has(event.message(), "0 workers of device cpu are left, the job needs 2"))
      << event.message();
  sim.workers().FailPrepare(absl::OkStatus());
  sim.CrashController();
  sim.StartController();
  sim.RunFor(400'000);
  EXPECT_NE(sim.Job(id).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(Has(Explained(sim, id), "is cordoned (3 failures within an hour"))
      << Explained(sim, id);
  ASSERT_TRUE(sim.jobs().Uncordon("sim").ok());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 800'000));
  ExpectClean(sim);
}

}  // namespace
}  // namespace coxswain::sim
