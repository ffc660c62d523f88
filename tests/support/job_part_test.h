// What tests of one part of a job share: its context over fakes, in virtual time. No JobDriver, no
// table of jobs, no simulation.
#ifndef COXSWAIN_TESTS_SUPPORT_JOB_PART_TEST_H_
#define COXSWAIN_TESTS_SUPPORT_JOB_PART_TEST_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/driver/job/job_export.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/job_context.h"
#include "controller/failure/policy.h"
#include "controller/gang/gang_session.h"
#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/fakes/memory_files.h"
#include "tests/sim/fakes/memory_store.h"

namespace coxswain::support {

// A job that writes down what its parts tell it, and does nothing about it.
class HeardByJob : public driver::JobListener {
 public:
  // In the order told: "prepared", or "attempt failed: MESSAGE".
  const std::vector<std::string>& told() const { return told_; }
  // The newest of each.
  const failure::Verdict& verdict() const { return verdict_.value(); }
  const driver::ExportAttempt& exported() const { return exported_.value(); }
  const absl::StatusOr<driver::PushedTo>& pushed() const { return pushed_.value(); }

  void OnPrepared(const std::optional<v1::Error>& failed) override {
    told_.push_back(failed ? absl::StrCat("prepared: ", failed->message()) : "prepared");
  }
  bool OnPlanned() override {
    told_.push_back("planned");
    return true;
  }
  void OnAttemptFailed(const v1::Error& error) override {
    told_.push_back(absl::StrCat("attempt failed: ", error.message()));
  }
  void OnHopeless(const v1::Error& error) override {
    told_.push_back(absl::StrCat("hopeless: ", error.message()));
  }
  void OnGangLost(const std::string& reason) override {
    told_.push_back(absl::StrCat("gang lost: ", reason));
  }
  void OnJudged(const failure::Verdict& verdict) override {
    told_.push_back("judged");
    verdict_ = verdict;
  }
  void OnRetryDue() override { told_.push_back("retry due"); }
  void OnExported(const driver::ExportAttempt& attempt) override {
    told_.push_back("exported");
    exported_ = attempt;
  }
  void OnPushed(const absl::StatusOr<driver::PushedTo>& pushed) override {
    told_.push_back("pushed");
    pushed_ = pushed;
  }

 private:
  std::vector<std::string> told_;
  std::optional<failure::Verdict> verdict_;
  std::optional<driver::ExportAttempt> exported_;
  std::optional<absl::StatusOr<driver::PushedTo>> pushed_;
};

// Job "job" writes to /out. A test sets row_, spec_, lane_work_ and hooks_ first, then makes its
// part with job().
class JobPartTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }

  JobPartTest() {
    workers_.Connect(&loop_);
    registry_.Lead(store_.Id(), 1);
    row_.job.set_id("job");
    spec_.output_dir = "/out";
    hooks_.reschedule = [this] { ++reschedules_; };
  }

  driver::JobContext& job() {
    if (job_ == nullptr) job_ = std::make_unique<Job>(this);
    return job_->context;
  }

  // Its gang of fake workers, which has not formed.
  void MakeGang(int ranks) {
    gang::Gang gang;
    gang.job = "job";
    gang.term = 1;
    gang.epoch = 1;
    std::vector<std::string> incarnations;
    for (int slot = 0; slot < ranks; ++slot) {
      incarnations.push_back(workers_.Start(slot));
      ASSERT_TRUE(registry_.Register(workers_.Hello(slot)).ok());
      registry_.Beat(workers_.Beat(slot), 1);
      gang.ranks.push_back({.target = registry_.Find(incarnations[slot])->target, .host = "sim"});
    }
    ASSERT_TRUE(registry_.Reserve(incarnations, "job").ok());
    job().session = std::make_shared<gang::GangSession>(
        deps_.OfGang(), std::move(gang),
        gang::SessionEvents{.formed = [] {},
                            .stepped = [] {},
                            .suspected = [](const v1::Error&) {},
                            .failed = [](const v1::Error&) {},
                            .ended = [] {}});
  }

  void RunFor(int64_t ms) {
    const int64_t end_ns = clock_.NowNs() + ms * 1'000'000;
    while (true) {
      agenda_.RunDue();
      if (loop_.RunReady()) continue;
      if (clock_.NowNs() >= end_ns) return;
      clock_.AdvanceTo(std::min({agenda_.NextNs(), loop_.NextTimerNs(), end_ns}));
    }
  }

  // A checkpoint of a recipe, by its hash in hex, that the job has committed.
  void Save(int64_t step, const std::string& recipe = "") {
    const std::string staging = checkpoint::StagingDirectory("/out", {"job", 1, 1}, step);
    ASSERT_TRUE(files_.MakeDirs(staging).ok());
    const std::string shard = absl::StrCat("tensors of step ", step);
    ASSERT_TRUE(files_.WriteDurably(staging + "/rank-0.shard", shard).ok());
    checkpoint::Manifest manifest{.job = "job", .term = 1, .epoch = 1, .recipe_hash = recipe};
    manifest.run.step = step;
    manifest.files = {FileInBlocks("rank-0.shard", DigestsOf(shard))};
    const auto committed = checkpoint::CommitCheckpoint(&files_, {"/out", manifest, "{}"});
    ASSERT_TRUE(committed.ok()) << committed.status();
    v1::CheckpointInfo& info = *row_.job.add_checkpoints();
    info.set_step(step);
    info.set_directory(checkpoint::CheckpointDirectory("/out", step));
    info.set_digest(committed->manifest.digest);
  }

  // Messages of the events of `type` in the job's history.
  std::vector<std::string> Told(const std::string& type) {
    EXPECT_TRUE(journal_.Flush().ok());
    const std::vector<v1::JobEvent> events = store_.Events("job", 0, 1000).value();
    std::vector<std::string> messages;
    for (const v1::JobEvent& event : events) {
      if (event.type() == type) messages.push_back(event.message());
    }
    return messages;
  }

  sim::VirtualClock clock_;
  sim::Agenda agenda_{&clock_};
  Loop loop_{&clock_, Loop::Offloading::kInline};
  sim::MemoryFiles files_;
  store::MemoryStore store_;
  sim::FakeWorkers workers_{&agenda_, &files_, 1};
  scheduler::Registry registry_{&loop_, &workers_, {}};
  FanOut fan_out_{0};
  Metrics metrics_{std::make_shared<prometheus::Registry>()};
  driver::Journal journal_{&loop_, &store_};
  driver::LaneWork lane_work_;
  const driver::Deps deps_{.loop = &loop_,
                           .journal = &journal_,
                           .files = &files_,
                           .transport = &workers_,
                           .fan_out = &fan_out_,
                           .registry = &registry_,
                           .lane_work = &lane_work_,
                           .metrics = &metrics_,
                           .incidents_dir = "/state/incidents",
                           .settings = {}};
  store::JobRow row_;
  config::JobSpec spec_;
  driver::JobHooks hooks_;
  HeardByJob heard_;
  int reschedules_ = 0;

 private:
  struct Job {
    explicit Job(JobPartTest* test)
        : record(&test->loop_, &test->journal_, &test->metrics_, test->row_),
          context{.deps = test->deps_,
                  .record = record,
                  .spec = test->spec_,
                  .output = output,
                  .hooks = test->hooks_,
                  .listener = test->heard_},
          output(context) {}

    driver::JobRecord record;
    driver::JobContext context;
    driver::OutputHold output;
  };
  std::unique_ptr<Job> job_;
};

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_JOB_PART_TEST_H_
