// Ranks that share experts and dequantise a few at a time train with the bits of all at once.
#include <gtest/gtest.h>

#include "tests/worker/engine/support/expert_ranges.h"
#include "tests/worker/engine/support/test_ranks.h"

namespace coxswain::engine {
namespace sharded_expert_ranges_test {
namespace {

class ShardedExpertRangesTest : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<StepStats> Train(const plan::Plan& plan) {
    std::vector<StepStats> all;
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 3; ++step) {
        TrainStep train = MakeStep(step, BinsOfRanges(100 + static_cast<uint64_t>(step)));
        train.bins = PartOf(plan, train.bins, rank);
        const auto stats = engine.Train(train);
        ASSERT_TRUE(stats.ok()) << stats.status();
        if (rank == 0) all.push_back(*stats);
      }
    });
    return all;
  }
};

TEST_P(ShardedExpertRangesTest, TrainWithTheBitsOfAllAtOnce) {
  for (const auto& [shard, zero] : {std::pair{2, 1}, {2, 2}, {2, 3}, {3, 3}}) {
    for (const char* level : {"none", "block"}) {
      plan::Plan plan = PlanOfRanges(GetParam());
      plan.shard = shard;
      plan.zero = zero;
      plan.recompute = *FromString<RecomputeLevel>(level);
      const std::vector<StepStats> whole = Train(AtOnce(plan, 0));
      for (const int64_t experts : {1, 4}) {
        ExpectSameSteps(Train(AtOnce(plan, experts)), whole);
        ASSERT_FALSE(HasFailure()) << shard << " ranks, ZeRO " << zero << " " << level << ", "
                                   << experts << " experts at once";
      }
    }
  }
}

// Codes are read until their block is done, while those of the next one arrive.
TEST_P(ShardedExpertRangesTest, HoldTheCodesOfTwoBlocks) {
  plan::Plan plan = PlanOfRanges(GetParam());
  plan.shard = 2;
  plan.zero = 3;
  const auto bytes = [](const plan::Plan& of) {
    for (const plan::Buffer& buffer : of.buffers) {
      if (buffer.name == "packed_slot") return buffer.bytes;
    }
    return int64_t{0};
  };
  const int64_t one = bytes(AtOnce(plan, 0));
  EXPECT_GT(one, 0);
  // Two flats are padded instead of one.
  EXPECT_NEAR(static_cast<double>(bytes(AtOnce(plan, 1))), static_cast<double>(2 * one), 1024);
  EXPECT_GE(bytes(AtOnce(plan, 1)), 2 * one);
}

INSTANTIATE_TEST_SUITE_P(Formats, ShardedExpertRangesTest,
                         testing::Values("nf4", "nf4_double", "int8", "mxfp4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace sharded_expert_ranges_test
}  // namespace coxswain::engine
