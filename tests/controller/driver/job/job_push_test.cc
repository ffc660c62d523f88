// A job whose export goes to the Hub: what it waits for, what ends it, and what is not done twice.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "controller/driver/job/job_push.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

class JobPushTest : public support::JobTest {
 protected:
  static std::string SubmitPushed(Simulation& sim) { return sim.Submit({.push_to = "org/tuned"}); }
  // Until `count` pushes of the job have failed.
  static bool PushesFail(Simulation& sim, const std::string& id, int count) {
    return sim.RunUntil([&] { return CountOf(sim, id, "PushFailed") == count; }, 600'000);
  }
};

TEST_F(JobPushTest, SucceedsWhenTheExportIsOnTheHub) {
  Simulation sim({});
  const std::string id = SubmitPushed(sim);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_EQ(sim.Job(id).pushed_url(), "https://hub/org/tuned/commit/c");
  ASSERT_EQ(CountOf(sim, id, "Pushed"), 1);
  const v1::Pushed pushed = sim.Events(id, "Pushed")[0].pushed();
  EXPECT_EQ(pushed.repository(), "org/tuned");
  EXPECT_EQ(pushed.revision(), "main");
  EXPECT_EQ(pushed.commit(), std::string(40, 'c'));
  EXPECT_EQ(pushed.bytes(), 7);
}

TEST_F(JobPushTest, WithoutARepositoryNothingIsPushed) {
  Simulation sim({});
  sim.FailPush(absl::InternalError("nobody asked for it"));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_EQ(CountOf(sim, id, "Pushed") + CountOf(sim, id, "PushFailed"), 0);
  EXPECT_EQ(sim.Job(id).pushed_url(), "");
}

TEST_F(JobPushTest, ANetworkIsWaitedForAndTheExportIsNotMadeAgain) {
  Simulation sim({});
  sim.FailPush(absl::UnavailableError("no route to the Hub"));
  const std::string id = SubmitPushed(sim);
  ASSERT_TRUE(PushesFail(sim, id, 3));
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_EXPORTING);
  EXPECT_EQ(sim.Job(id).setback().message(), "no route to the Hub");
  EXPECT_EQ(sim.Events(id, "PushFailed")[0].push_failed().code(), "UNAVAILABLE");
  EXPECT_EQ(sim.registry().Free("cpu").size(), 2u) << "workers do not wait with it";
  sim.FailPush(absl::OkStatus());
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_FALSE(sim.Job(id).has_setback());
  EXPECT_EQ(sim.exports(), 1);
  EXPECT_EQ(sim.Job(id).epoch(), 1u) << "nothing is trained again";
}

TEST_F(JobPushTest, TheNextControllerPushesWhatIsThere) {
  Simulation sim({});
  sim.FailPush(absl::UnavailableError("no route to the Hub"));
  const std::string id = SubmitPushed(sim);
  ASSERT_TRUE(PushesFail(sim, id, 1));
  sim.CrashController();
  sim.FailPush(absl::OkStatus());
  sim.StartController();
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 600'000));
  EXPECT_EQ(sim.exports(), 1);
  EXPECT_EQ(CountOf(sim, id, "Pushed"), 1);
}

TEST_F(JobPushTest, WhatTheHubRefusesEndsTheJobAndKeepsTheExport) {
  Simulation sim({});
  sim.FailPush(absl::PermissionDeniedError("the token may not write to org/tuned"));
  const std::string id = SubmitPushed(sim);
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 600'000));
  const v1::Job job = sim.Job(id);
  EXPECT_EQ(job.error().kind(), v1::ERROR_KIND_USER);
  EXPECT_EQ(job.error().message(),
            "the token may not write to org/tuned; the export is whole in /out/job/adapter, and "
            "`cox push /out/job/adapter org/tuned` sends it");
  EXPECT_EQ(job.artifact_dir(), "/out/job/adapter");
  EXPECT_TRUE(sim.files().Exists("/out/job/adapter/model"));
  EXPECT_EQ(CountOf(sim, id, "PushFailed"), 1);
  EXPECT_EQ(sim.exports(), 1);
}

TEST_F(JobPushTest, ACancelEndsAPushThatWaits) {
  Simulation sim({});
  sim.FailPush(absl::UnavailableError("no route to the Hub"));
  const std::string id = SubmitPushed(sim);
  ASSERT_TRUE(PushesFail(sim, id, 1));
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  sim.RunFor(60'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(CountOf(sim, id, "PushFailed"), 1);
  EXPECT_TRUE(sim.files().Exists("/out/job/adapter/model"));
}

// The part alone.
class JobPushPartTest : public support::JobPartTest {
 protected:
  JobPushPartTest() {
    spec_.push_to_hub.repo = "org/tuned";
    row_.job.set_artifact_dir("/out/adapter");
    row_.job.set_artifact_digest("of the adapter");
    lane_work_.push = [this](const driver::PushInput& input) -> absl::StatusOr<driver::PushedTo> {
      inputs_.push_back(input);
      return driver::PushedTo{.commit = "c", .url = "https://hub/org/tuned"};
    };
  }

  std::vector<driver::PushInput> inputs_;
};

TEST_F(JobPushPartTest, TheAdapterIsPushedWhereThereIsNoMergedModel) {
  driver::JobPush push(job());
  EXPECT_TRUE(push.Wanted());
  push.Start();
  RunFor(1);
  ASSERT_EQ(heard_.told(), std::vector<std::string>{"pushed"});
  EXPECT_EQ(heard_.pushed()->url, "https://hub/org/tuned");
  EXPECT_EQ(inputs_[0].directory, "/out/adapter");
  EXPECT_EQ(inputs_[0].digest, "of the adapter");
  EXPECT_EQ(inputs_[0].to.repo, "org/tuned");
}

TEST_F(JobPushPartTest, TheMergedModelIsPushedWhereThereIsOne) {
  row_.job.set_merged_dir("/out/model");
  row_.job.set_merged_digest("of the model");
  driver::JobPush push(job());
  push.Start();
  RunFor(1);
  EXPECT_EQ(inputs_[0].directory, "/out/model");
  EXPECT_EQ(inputs_[0].digest, "of the model");
}

TEST_F(JobPushPartTest, AStopReachesTheLaneAndTellsNobody) {
  driver::JobPush push(job());
  push.Start();
  push.Stop();
  RunFor(1);
  ASSERT_EQ(inputs_.size(), 1u);
  EXPECT_TRUE(inputs_[0].cancelled());
  EXPECT_TRUE(heard_.told().empty());
  push.Start();
  RunFor(1);
  EXPECT_FALSE(inputs_[1].cancelled());
  EXPECT_EQ(heard_.told(), std::vector<std::string>{"pushed"});
}

}  // namespace
}  // namespace coxswain::sim
