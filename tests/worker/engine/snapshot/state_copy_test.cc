// What a snapshot holds, on whatever device, while the state it was taken of changes.
#include "worker/engine/snapshot/state_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "kernels/device.h"
#include "tests/worker/engine/support/test_model.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace state_copy_test {
namespace {

class StateCopyTest : public testing::TestWithParam<bool> {  // in slices
 protected:
  void SetUp() override {
    if (GetParam() && TestDevice() == "cpu") GTEST_SKIP() << "a CPU has no slices";
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    model::ModelConfig config = SmallConfig();
    // On a GPU an embedding whose copy takes a while.
    config.vocab_size = TestDevice() == "cpu" ? 2'000 : 100'000;
    plan::Plan plan = MakePlan(config, options);
    plan.snapshot_in_slices = GetParam();
    std::string doing;
    auto made = MakeState(plan, 0, "", &doing);
    ASSERT_TRUE(made.ok()) << made.status();
    state_ = std::move(*made);
  }

  absl::Status Take(int64_t step) {
    return state_->snapshot.Take(state_->layout, {step, step}, state_->buffers, state_->stream);
  }
  // What an update does to the first state of the optimizer.
  void Overwrite(int value) {
    state_->snapshot.AwaitCopied(state_->stream);
    kernels::SetMemory(state_->buffers.states[0], value, bytes(), state_->stream);
  }
  int64_t bytes() const { return state_->layout.map.states[0]; }
  // That the snapshot has `value` in every byte of that state.
  void ExpectHolds(int64_t step, char value) {
    const absl::Status read = state_->snapshot.Read(step, [&](const SnapshotCounters& counters) {
      EXPECT_EQ(counters.finished_steps, step);
      const char* begin = state_->buffers.snapshot;
      EXPECT_EQ(std::count(begin, begin + bytes(), value), bytes());
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
  }

  std::unique_ptr<State> state_;
};

TEST_P(StateCopyTest, HoldsWhatWasThereBeforeTheUpdate) {
  Overwrite(1);
  ASSERT_TRUE(Take(7).ok());
  Overwrite(2);
  ExpectHolds(7, 1);
  // Page-locked meanwhile, a part of it at least.
  state_->snapshot.PinBeside(state_->layout, state_->arena.HoldHost("snapshot"));
  for (char value = 3; value < 6; ++value) {
    ASSERT_TRUE(Take(value).ok());
    Overwrite(value);
    ExpectHolds(value, static_cast<char>(value - 1));
  }
  kernels::Synchronize(state_->stream);
}

TEST_P(StateCopyTest, TwoSnapshotsWithoutAnUpdateAreTheSame) {
  Overwrite(1);
  ASSERT_TRUE(Take(1).ok());
  ASSERT_TRUE(Take(2).ok());
  Overwrite(2);
  ExpectHolds(2, 1);
}

TEST_P(StateCopyTest, NoOtherIsTakenWhileOneIsBeingRead) {
  ASSERT_TRUE(Take(4).ok());
  const absl::Status read = state_->snapshot.Read(4, [&](const SnapshotCounters&) {
    const absl::Status other = Take(5);
    EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(other.message().find("that of step 4"), absl::string_view::npos) << other;
    EXPECT_FALSE(
        state_->snapshot.Read(4, [](const SnapshotCounters&) { return absl::OkStatus(); }).ok());
    return absl::DataLossError("full");
  });
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Take(5).ok());
  EXPECT_EQ(state_->snapshot.Read(4, {}).code(), absl::StatusCode::kFailedPrecondition);
  ExpectHolds(5, 0);
}

INSTANTIATE_TEST_SUITE_P(Slices, StateCopyTest, testing::Bool());

}  // namespace
}  // namespace state_copy_test
}  // namespace coxswain::engine
