// What jobs tell is written in a lane, in order, and the loop waits for it only where it says so.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/logging.h"
#include "controller/driver/records/journal.h"
#include "tests/sim/fakes/memory_store.h"
#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::driver {
namespace {

class JournalLaneTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }

  void Tell(const std::string& what) {
    v1::JobEvent event;
    event.set_job("a");
    event.set_type(what);
    journal_.Add(std::move(event));
  }
  // So much time for the loop; what it gives to lanes waits for them.
  void Pass(int64_t ms) {
    clock_.AdvanceTo(clock_.NowNs() + ms * 1'000'000);
    while (loop_.RunReady()) {
    }
  }
  void RunLane() {
    for (auto& [work, done] : std::exchange(given_, {})) {
      work();
      loop_.Post(std::move(done));
    }
    while (loop_.RunReady()) {
    }
  }
  std::string Stored() {
    std::string text;
    const auto events = *store_.Events("a", 0, 1000);
    for (const v1::JobEvent& event : events) text += event.type() + " ";
    return text;
  }

  sim::VirtualClock clock_;
  std::vector<std::pair<Loop::Task, Loop::Task>> given_;
  Loop loop_{&clock_, [this](Lane lane, Loop::Task work, Loop::Task done) {
               EXPECT_EQ(lane, Lane::kStore);
               given_.emplace_back(std::move(work), std::move(done));
             }};
  store::MemoryStore store_;
  Journal journal_{&loop_, &store_};
};

TEST_F(JournalLaneTest, WhatIsAddedMeanwhileGoesWithTheNextCommit) {
  int commits = 0;
  journal_.OnCommit([&](double) { ++commits; });
  Tell("one");
  Pass(60);
  EXPECT_EQ(given_.size(), 1u);
  Tell("two");
  Tell("three");
  Pass(200);
  EXPECT_EQ(given_.size(), 1u);  // one at a time
  EXPECT_EQ(Stored(), "");
  RunLane();
  EXPECT_EQ(Stored(), "one ");
  Pass(60);
  RunLane();
  EXPECT_EQ(Stored(), "one two three ");
  EXPECT_EQ(commits, 2);
}

TEST_F(JournalLaneTest, AFlushDoesNotWaitForItsTurnInTheLane) {
  Tell("one");
  Pass(60);
  Tell("two");
  EXPECT_TRUE(journal_.Flush().ok());
  EXPECT_EQ(Stored(), "one two ");
  RunLane();  // finds it done
  Pass(60);
  RunLane();
  EXPECT_EQ(Stored(), "one two ");
}

TEST_F(JournalLaneTest, WhatTheLaneCannotWriteStaysInFront) {
  Tell("one");
  Pass(60);
  Tell("two");
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  RunLane();
  EXPECT_EQ(journal_.batch().events.size(), 2u);
  EXPECT_EQ(journal_.Transact([] { return absl::OkStatus(); }).code(),
            absl::StatusCode::kUnavailable);
  store_.set_write_error(absl::OkStatus());
  Pass(1100);
  RunLane();
  EXPECT_EQ(Stored(), "one two ");
}

TEST_F(JournalLaneTest, OfARowThatIsWrittenTwiceTheNewerOneStays) {
  store::JobRow row;
  row.job.set_id("a");
  store::Batch accepted;
  accepted.new_jobs = {row};
  ASSERT_TRUE(store_.Commit(accepted).ok());
  row.stop_at_step = 1;
  journal_.PutJob(row);
  journal_.PutPosition({"a", 1, 1, "old"});
  Pass(60);
  row.stop_at_step = 2;
  journal_.PutJob(row);
  journal_.PutPosition({"a", 1, 2, "new"});
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  RunLane();
  store_.set_write_error(absl::OkStatus());
  EXPECT_EQ(journal_.batch().jobs.size(), 1u);
  EXPECT_TRUE(journal_.Flush().ok());
  EXPECT_EQ(store_.Jobs()->at(0).stop_at_step, 2);
  EXPECT_EQ((*store_.Position("a"))->state, "new");
}

// Its commits end when they are let.
class SlowStore : public store::MemoryStore {
 public:
  absl::Status Commit(const store::Batch& batch) override {
    if (std::exchange(first_, false)) {
      begun.set_value();
      may_end.get_future().wait();
    }
    return MemoryStore::Commit(batch);
  }
  std::promise<void> begun, may_end;

 private:
  bool first_ = true;
};

TEST(JournalThreadTest, AFlushWaitsForWhatTheLaneHasBegun) {
  log::Init("test", log::Level::kError);
  sim::VirtualClock clock;
  SlowStore store;
  Loop loop(&clock, Loop::Offloading::kToLanes);
  Journal journal(&loop, &store);
  v1::JobEvent event;
  event.set_job("a");
  journal.Add(event);
  clock.AdvanceTo(clock.NowNs() + 60'000'000);
  while (loop.RunReady()) {
  }
  store.begun.get_future().wait();
  journal.Add(event);
  std::thread other([&] { store.may_end.set_value(); });
  EXPECT_TRUE(journal.Flush().ok());
  other.join();
  EXPECT_EQ(store.Events("a", 0, 10)->size(), 2u);
}

}  // namespace
}  // namespace coxswain::driver
