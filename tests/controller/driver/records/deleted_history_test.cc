#include "controller/driver/records/deleted_history.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/logging.h"
#include "tests/sim/fakes/memory_store.h"
#include "tests/sim/fakes/virtual_clock.h"

namespace coxswain::driver {
namespace {

// Has `pieces` left, and may take no writes.
class LongStore : public store::MemoryStore {
 public:
  absl::StatusOr<bool> SweepDeleted() override {
    if (!CheckWritable().ok()) return CheckWritable();
    return pieces > 0 && --pieces >= 0;
  }
  int pieces = 0;
};

class DeletedHistoryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::Init("test", log::Level::kError); }

  // One piece of the lane's work. False: there is none.
  bool RunLane() {
    while (loop_.RunReady()) {
    }
    if (given_.empty()) return false;
    auto [work, done] = std::move(given_.front());
    given_.erase(given_.begin());
    work();
    loop_.Post(std::move(done));
    while (loop_.RunReady()) {
    }
    return true;
  }

  sim::VirtualClock clock_;
  std::vector<std::pair<Loop::Task, Loop::Task>> given_;
  Loop loop_{&clock_, [this](Lane lane, Loop::Task work, Loop::Task done) {
               EXPECT_EQ(lane, Lane::kStore);
               given_.emplace_back(std::move(work), std::move(done));
             }};
  LongStore store_;
  DeletedHistory history_{&loop_, &store_};
};

// Invariant store-8.
TEST_F(DeletedHistoryTest, TheLoopDoesOnePieceAndTheLaneTheOthers) {
  store_.pieces = 4;
  history_.Sweep();
  EXPECT_EQ(store_.pieces, 3);
  history_.Sweep();  // it is under way
  EXPECT_EQ(store_.pieces, 3);
  EXPECT_EQ(given_.size(), 1u);
  int pieces = 0;
  while (RunLane()) ++pieces;
  EXPECT_EQ(pieces, 4);  // the last one finds nothing
  EXPECT_EQ(store_.pieces, 0);
  store_.pieces = 1;
  history_.Sweep();
  while (RunLane()) {
  }
  EXPECT_EQ(store_.pieces, 0);
}

TEST_F(DeletedHistoryTest, NothingIsGivenToTheLaneWhereNothingIsLeft) {
  history_.Sweep();
  EXPECT_TRUE(given_.empty());
}

TEST_F(DeletedHistoryTest, AStoreThatTakesNoWritesIsTriedAgain) {
  store_.pieces = 2;
  store_.set_write_error(absl::ResourceExhaustedError("disk full"));
  history_.Sweep();
  EXPECT_FALSE(RunLane());
  store_.set_write_error(absl::OkStatus());
  clock_.AdvanceTo(clock_.NowNs() + std::chrono::nanoseconds(DeletedHistory::kRetry).count());
  while (RunLane()) {
  }
  EXPECT_EQ(store_.pieces, 0);
}

}  // namespace
}  // namespace coxswain::driver
