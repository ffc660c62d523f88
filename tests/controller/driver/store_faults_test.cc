// A store that takes no writes for a while, and one that holds what cannot be read.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "common/logging.h"
#include "common/outside_text.h"
#include "controller/driver/records/job_record.h"
#include "controller/driver/records/make_events.h"
#include "controller/failure/errors.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::driver {
namespace {

// Remembers where the rows of each commit stood in memory.
class WatchedStore : public store::MemoryStore {
 public:
  absl::Status Commit(const store::Batch& batch) override {
    places.push_back(batch.events.empty() ? nullptr : &batch.events.front());
    jobs = batch.jobs.size();
    return MemoryStore::Commit(batch);
  }
  std::vector<const v1::JobEvent*> places;
  size_t jobs = 0;  // of the newest commit
};

class JournalTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }
  JournalTest() {
    journal_.OnDropped([this](int64_t events, int64_t steps) {
      dropped_events_ += events;
      dropped_steps_ += steps;
    });
    store::Batch accepted;
    accepted.new_jobs.resize(2);
    accepted.new_jobs[0].job.set_id("a");
    accepted.new_jobs[1].job.set_id("b");
    EXPECT_TRUE(store_.MemoryStore::Commit(accepted).ok());
  }

  void Put(const std::string& id, v1::JobState state) {
    store::JobRow row;
    row.job.set_id(id);
    row.job.set_state(state);
    journal_.PutJob(row);
  }
  void Add(const std::string& id, const std::string& type) {
    v1::JobEvent event;
    event.set_job(id);
    event.set_type(type);
    journal_.Add(event);
    Put(id, v1::JOB_STATE_RUNNING);
  }
  void Run(int64_t ms) {
    const int64_t end = clock_.NowNs() + ms * 1'000'000;
    while (true) {
      while (loop_.RunReady()) {
      }
      if (loop_.NextTimerNs() > end) break;
      clock_.AdvanceTo(loop_.NextTimerNs());
    }
    clock_.AdvanceTo(end);
  }
  std::vector<v1::JobEvent> Stored(const std::string& id, const std::string& type) {
    std::vector<v1::JobEvent> events = *store_.Events(id, 0, 1 << 30);
    std::erase_if(events, [&](const v1::JobEvent& event) { return event.type() != type; });
    return events;
  }

  sim::VirtualClock clock_;
  Loop loop_{&clock_, Loop::Offloading::kInline};
  WatchedStore store_;
  Journal journal_{&loop_, &store_};
  int64_t dropped_events_ = 0, dropped_steps_ = 0;
};

TEST_F(JournalTest, AWaitingBatchIsTriedAgainAsItStands) {
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  Add("a", "StateChanged");
  Add("a", "EvalDone");
  Put("a", v1::JOB_STATE_PAUSED);
  Put("b", v1::JOB_STATE_QUEUED);
  Run(3500);
  ASSERT_GE(store_.places.size(), 3u);
  for (const v1::JobEvent* place : store_.places) EXPECT_EQ(place, store_.places.front());
  EXPECT_EQ(store_.jobs, 2u);  // one row a job, merged once
  store_.set_write_error(absl::OkStatus());
  Run(2000);
  EXPECT_EQ(Stored("a", "StateChanged").size(), 1u);
  EXPECT_EQ(store_.Jobs()->at(0).job.state(), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(dropped_events_, 0);
}

TEST_F(JournalTest, WhatWaitsIsBoundedAndOnlyStepsGo) {
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  Add("a", "StateChanged");
  const int64_t steps = 3 * Journal::kMostSteps;
  for (int64_t step = 0; step < steps; ++step) {
    Add(step % 100 == 0 ? "b" : "a", "StepDone");
    if (step % 1000 == 0) Add("a", "CheckpointCommitted");
    journal_.Add(store::StepRow{.job = "a", .step = step, .epoch = 1});
    if (step % 1000 == 0) {
      EXPECT_FALSE(journal_.Flush().ok());
    }
    ASSERT_LE(journal_.batch().events.size(), Journal::kMostEvents + 2000);
    ASSERT_LE(journal_.batch().steps.size(), Journal::kMostSteps + 1000);
  }
  Put("a", v1::JOB_STATE_PAUSED);
  store_.set_write_error(absl::OkStatus());
  ASSERT_TRUE(journal_.Flush().ok());
  Run(1000);
  EXPECT_EQ(Stored("a", "StateChanged").size(), 1u);
  EXPECT_EQ(Stored("a", "CheckpointCommitted").size(), static_cast<size_t>(steps / 1000 + 1));
  EXPECT_EQ(static_cast<int64_t>(Stored("a", "StepDone").size() + Stored("b", "StepDone").size()),
            steps - dropped_events_);
  const auto rows = *store_.Steps("a", 0);
  EXPECT_EQ(static_cast<int64_t>(rows.size()), steps - dropped_steps_);
  EXPECT_EQ(rows.back().step, steps - 1);  // the newest stay
  ASSERT_EQ(Stored("a", "Warning").size(), 1u);
  ASSERT_EQ(Stored("b", "Warning").size(), 1u);
  const v1::JobEvent warning = Stored("a", "Warning")[0];
  EXPECT_EQ(warning.state(), v1::JOB_STATE_PAUSED);
  const v1::Warning of_b = Stored("b", "Warning")[0].warning();
  EXPECT_EQ(warning.warning().dropped_events() + of_b.dropped_events(), dropped_events_);
  EXPECT_EQ(warning.warning().dropped_steps(), dropped_steps_);
}

TEST_F(JournalTest, ATransactionIsTakenWholeOrNotAtAll) {
  const auto decide = [&] {
    Add("a", "StateChanged");
    journal_.DeleteJob("b");
    return absl::OkStatus();
  };
  Put("b", v1::JOB_STATE_PAUSED);
  ASSERT_TRUE(journal_.Flush().ok());
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  absl::Status status = journal_.Transact(decide);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("disk full"), absl::string_view::npos) << status;

  Add("b", "EvalDone");  // waits: nothing is decided before it is written
  int asked = 0;
  status = journal_.Transact([&] {
    ++asked;
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(asked, 0);

  store_.set_write_error(absl::OkStatus());
  EXPECT_EQ(journal_.Transact([&] {
    decide().IgnoreError();
    return absl::FailedPreconditionError("no");
  }),
            absl::FailedPreconditionError("no"));
  Run(3000);
  EXPECT_TRUE(Stored("a", "StateChanged").empty());
  EXPECT_EQ(Stored("b", "EvalDone").size(), 1u);
  EXPECT_EQ(store_.Jobs()->size(), 2u);
  EXPECT_TRUE(journal_.Transact(decide).ok());
  EXPECT_EQ(Stored("a", "StateChanged").size(), 1u);
  ASSERT_EQ(store_.Jobs()->size(), 1u);
  EXPECT_EQ(store_.Jobs()->at(0).job.id(), "a");
}

// Bytes of a model file that reach a message.
TEST_F(JournalTest, ForeignBytesReachTheStoreAsText) {
  Metrics metrics(std::make_shared<prometheus::Registry>());
  store::JobRow row;
  row.job.set_id("a");
  row.job.set_state(v1::JOB_STATE_PREPARING);
  JobRecord record(&loop_, &journal_, &metrics, row);
  const std::string foreign = "tensor \"\xff\xfe\x1b[2J\" of " + std::string(1 << 20, 'x');
  *record.edit().mutable_error() = failure::MakeError(absl::InvalidArgumentError(foreign),
                                                      {.host = "h\xff", .phase = "prepare_data"});
  record.AddEvent(WarningEvent(), foreign);
  ASSERT_TRUE(journal_.Flush().ok());
  v1::Job job;
  ASSERT_TRUE(job.ParseFromString(record.job().SerializeAsString()));
  EXPECT_TRUE(job.error().message().starts_with("tensor \"\\xff\\xfe\\x1b[2J\" of "));
  EXPECT_LE(job.error().message().size(), kMostMessageBytes);
  EXPECT_EQ(job.error().host(), "h\\xff");
  v1::JobEvent event;
  ASSERT_TRUE(event.ParseFromString(store_.Events("a", 0, 1)->at(0).SerializeAsString()));
  EXPECT_EQ(event.message(), job.error().message());
}

class StoreFaultsTest : public support::JobTest {};

// Each attempt has a plan of its own, which a store that is away for days must not collect in
// memory.
TEST_F(StoreFaultsTest, AttemptsWithoutAStoreLeaveNoPlansBehind) {
  sim::Simulation sim({});
  const std::string id = sim.Submit({});
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_ADMITTED));
  sim.store().set_write_error(absl::ResourceExhaustedError("disk full"));
  sim.RunFor(600'000);
  EXPECT_GE(sim.deps().journal->batch().events.size(), 4u);
  EXPECT_TRUE(sim.deps().journal->batch().plans.empty());
  EXPECT_TRUE(sim.deps().journal->batch().epochs.empty());
  sim.store().set_write_error(absl::OkStatus());
  EXPECT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  for (const std::string& violation : sim.Violations()) ADD_FAILURE() << violation;
}

// Invariant store-6.
TEST_F(StoreFaultsTest, AnUnreadableJobIsShownFailedAndTheOthersGoOn) {
  sim::Simulation sim({});
  const std::string good = sim.Submit({.name = "good"}, /*paused=*/true);
  store::Batch batch;
  store::JobRow bad;
  bad.job.set_id("bad-1");
  bad.order = 77;
  bad.unreadable = "row 'bad-1' of table jobs in /state/coxswain.db cannot be read: it is noise";
  batch.new_jobs.push_back(bad);
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.CrashController();
  sim.StartController();

  EXPECT_TRUE(sim.jobs().recovered());
  EXPECT_EQ(sim.history(), "");
  EXPECT_EQ(sim.jobs().NextOrder(), 78);
  const v1::Job& shown = sim.Job("bad-1");
  EXPECT_EQ(shown.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(shown.error().code(), "DATA_LOSS");
  EXPECT_NE(shown.error().message().find("/state/coxswain.db"), std::string::npos);
  EXPECT_NE(shown.error().message().find("cox delete bad-1"), std::string::npos);
  JobDriver* driver = *sim.jobs().Find("bad-1");
  EXPECT_FALSE(driver->Cancel().ok());
  EXPECT_FALSE(driver->Resume(0).ok());
  ASSERT_TRUE((*sim.jobs().Find(good))->Resume(0).ok());
  ASSERT_TRUE(sim.RunUntilState(good, v1::JOB_STATE_SUCCEEDED));
  const auto rows = *sim.store().Jobs();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].unreadable, bad.unreadable);  // the evidence stays
  EXPECT_TRUE(sim.jobs().Delete("bad-1").ok());
  EXPECT_EQ(sim.store().Jobs()->size(), 1u);
}

// Invariant config-5. The row is one that a release with a wider range and another default wrote.
TEST_F(StoreFaultsTest, AStoredJobIsNotJudgedAgainAndKeepsItsNumbers) {
  sim::Simulation sim({});
  const std::string id = sim.Submit({}, /*paused=*/true);
  store::Batch batch;
  batch.jobs = *sim.store().Jobs();
  auto effective = nlohmann::ordered_json::parse(batch.jobs[0].job.effective_json());
  effective["spec"]["checkpoint"]["save_total_limit"] = 1;  // below today's range
  effective["spec"]["train"]["weight_decay"] = 0.5;
  batch.jobs[0].job.set_effective_json(effective.dump());
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.CrashController();
  sim.StartController();
  EXPECT_EQ((*sim.jobs().Find(id))->spec().save_total_limit, 1);
  EXPECT_EQ((*sim.jobs().Find(id))->spec().train.weight_decay, 0.5);
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  EXPECT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
}

TEST_F(StoreFaultsTest, AStoredJobThatCannotBeUnderstoodIsRefusedAloneAndByName) {
  sim::Simulation sim({});
  const std::string good = sim.Submit({.name = "good"}, /*paused=*/true);
  const std::string bad = sim.Submit({.name = "bad"}, /*paused=*/true);
  store::Batch batch;
  batch.jobs = {sim.store().Jobs()->at(1)};
  auto effective = nlohmann::ordered_json::parse(batch.jobs[0].job.effective_json());
  effective["spec"]["train"]["lr_scheduler"] = "of the future";
  batch.jobs[0].job.set_effective_json(effective.dump());
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.CrashController();
  sim.StartController();
  EXPECT_EQ(sim.Job(bad).state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(sim.Job(bad).error().message().find("spec.train.lr_scheduler"), std::string::npos);
  EXPECT_EQ(sim.Job(good).state(), v1::JOB_STATE_PAUSED);
}

}  // namespace
}  // namespace coxswain::driver
