// A job that waits for what it names of the Hub, in virtual time.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "controller/driver/job/job_fetch.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_part_test.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

using Fetched = absl::StatusOr<std::vector<sources::FetchedSource>>;

class JobFetchTest : public support::JobTest {
 protected:
  // What the Hub answers from now on.
  void Answer(Simulation& sim, absl::Status status) {
    sim.deps().lane_work->fetch = [this, status](const config::JobSpec& spec,
                                                 const std::string& owner,
                                                 const sources::FetchHooks& hooks) -> Fetched {
      ++asked_;
      EXPECT_EQ(spec.model_hub.id, "org/tiny");
      EXPECT_EQ(owner, "");
      hooks.progress("model org/tiny", {.bytes = 5, .bytes_total = 10});
      if (!status.ok()) return status;
      return std::vector<sources::FetchedSource>{
          {.source = "model org/tiny", .directory = "/cache", .files = 2, .bytes = 10}};
    };
  }

  int asked_ = 0;
};

TEST_F(JobFetchTest, AHubThatIsAwayIsWaitedForWithoutLimit) {
  for (const absl::Status& status :
       {absl::UnavailableError("no answer"), absl::ResourceExhaustedError("the disk is full"),
        absl::DataLossError("another hash")}) {
    Simulation sim({});
    Answer(sim, status);
    const std::string id = sim.Submit({.model = "org/tiny"});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_RECOVERING, 10'000)) << status;
    EXPECT_EQ(sim.Job(id).setback().kind(), v1::ERROR_KIND_STORAGE);
    EXPECT_EQ(sim.Job(id).setback().phase(), "fetch");
    EXPECT_FALSE(sim.Job(id).progress().has_fetching());
    sim.RunFor(3'600'000);
    EXPECT_GT(asked_, 10);
    Answer(sim, absl::OkStatus());
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 400'000));
    EXPECT_EQ(sim.Job(id).restarts(), 0);
    ASSERT_EQ(sim.Events(id, "SourceFetched").size(), 1u);
    EXPECT_EQ(sim.Events(id, "SourceFetched")[0].source_fetched().bytes(), 10);
    ExpectClean(sim);
  }
}

TEST_F(JobFetchTest, WhatTheHubRefusesFailsTheJob) {
  for (const absl::Status& status :
       {absl::NotFoundError("gone"), absl::PermissionDeniedError("gated"),
        absl::UnauthenticatedError("no token")}) {
    Simulation sim({});
    Answer(sim, status);
    const std::string id = sim.Submit({.model = "org/tiny"});
    ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED, 10'000)) << status;
    EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_USER);
  }
}

// Invariant sources-2.
TEST_F(JobFetchTest, AJobOfPathsAsksNobody) {
  Simulation sim({});
  Answer(sim, absl::InternalError("asked"));
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(asked_, 0);
}

// The part alone.
class JobFetchPartTest : public support::JobPartTest {
 protected:
  JobFetchPartTest() {
    spec_.model_hub.id = "org/tiny";
    lane_work_.fetch = [this](const config::JobSpec&, const std::string&,
                              const sources::FetchHooks& hooks) {
      cancelled_ = hooks.cancelled();
      return answer_;
    };
  }
  // Another download of so many bytes, to its end.
  void Fetch(driver::JobFetch* fetch, int64_t bytes) {
    answer_ = std::vector<sources::FetchedSource>{
        {.source = "model org/tiny", .directory = "/cache", .files = 1, .fetched_bytes = bytes}};
    fetch->Start([this](const std::optional<v1::Error>& failed) { Done(failed); });
    RunFor(1);
  }
  void Done(const std::optional<v1::Error>& failed) {
    done_.push_back(failed ? failed->phase() + ": " + failed->message() : "fetched");
  }

  Fetched answer_ = std::vector<sources::FetchedSource>();
  bool cancelled_ = false;  // as the lane saw it
  std::vector<std::string> done_;
};

TEST_F(JobFetchPartTest, WhatIsThereAlreadyIsToldOnce) {
  driver::JobFetch fetch(job());
  Fetch(&fetch, 0);
  Fetch(&fetch, 0);
  EXPECT_EQ(Told("SourceFetched").size(), 1u);
  Fetch(&fetch, 7);
  EXPECT_EQ(Told("SourceFetched").size(), 2u);
  EXPECT_EQ(done_, std::vector<std::string>(3, "fetched"));
}

TEST_F(JobFetchPartTest, AFailureIsToldToTheCallerAndNotToTheHistory) {
  row_.job.mutable_progress()->mutable_fetching()->set_source("model org/tiny");
  driver::JobFetch fetch(job());
  answer_ = absl::UnavailableError("no answer");
  fetch.Start([this](const std::optional<v1::Error>& failed) { Done(failed); });
  RunFor(1);
  EXPECT_EQ(done_, std::vector<std::string>{"fetch: no answer"});
  EXPECT_TRUE(Told("SourceFetched").empty());
  EXPECT_FALSE(job().record.job().progress().has_fetching());
}

TEST_F(JobFetchPartTest, AStopReachesTheLaneAndTellsNobody) {
  driver::JobFetch fetch(job());
  fetch.Start([this](const std::optional<v1::Error>& failed) { Done(failed); });
  fetch.Stop();
  RunFor(1);
  EXPECT_TRUE(cancelled_);
  EXPECT_TRUE(done_.empty());
}

}  // namespace
}  // namespace coxswain::sim
