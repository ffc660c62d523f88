// The mesh that the planner takes where the job leaves it open.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "controller/planner/planner.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class MeshTest : public testing::Test {
 protected:
  MeshTest() {
    job_.adapter = config::Adapter::kNone;
    job_.workers = 16;
    job_.train.global_batch_size = 16;  // micro-batches of 1
    model_.hidden_size = 64;            // units larger than the padding of 16 parts
    model_.head_dim = 16;
    model_.intermediate_size = 256;
    model_.num_layers = 12;
    model_.layer_windows.assign(12, 0);
  }
  PlannedJob Plan(std::vector<int32_t> ranks_of_hosts, uint64_t memory = 0) {
    auto recipe = Recipe::Make(job_, model_, data_);
    EXPECT_TRUE(recipe.ok()) << recipe.status();
    auto planned = MakePlan("small-1", job_, model_, *recipe,
                            {.memory_bytes = memory, .ranks_of_hosts = std::move(ranks_of_hosts)});
    EXPECT_TRUE(planned.ok()) << planned.status();
    return std::move(*planned);
  }
  // Of the stage that needs least, without recomputation.
  uint64_t LeastBytes(const std::vector<int32_t>& ranks_of_hosts) {
    uint64_t least = UINT64_MAX;
    job_.resident_blocks = 2;
    for (const int64_t zero : {1, 2, 3}) {
      job_.zero = zero;
      least = std::min(least, Plan(ranks_of_hosts).estimate.total_bytes);
    }
    job_.zero.reset();
    job_.resident_blocks.reset();
    return least;
  }
  static std::vector<int32_t> Mesh(const PlannedJob& planned) {
    return {planned.plan.replicate, planned.plan.shard};
  }
  static bool Says(const PlannedJob& planned, const std::string& text) {
    for (const std::string& line : planned.advice) {
      if (line.find(text) != line.npos) return true;
    }
    return false;
  }

  data::PreparedData data_ = SmallData(201, 20);
  config::JobSpec job_ = SmallJob();
  model::ModelConfig model_ = SmallModel();
};
using Shape = std::vector<int32_t>;

TEST_F(MeshTest, EachHostHoldsAReplicaWhereItFits) {
  const PlannedJob planned = Plan({8, 8});
  EXPECT_EQ(Mesh(planned), (Shape{2, 8}));
  EXPECT_EQ(planned.plan.zero, 1);
  EXPECT_TRUE(Says(planned, "parallelism is replicate 2 x shard 8: each of 2 hosts holds"));
  EXPECT_EQ(planned.hash, Plan({8, 8}).hash);
  EXPECT_EQ(Mesh(Plan({4, 4, 4, 4})), (Shape{4, 4}));
  EXPECT_EQ(Plan({8, 8}, planned.estimate.total_bytes).hash, planned.hash);
}

TEST_F(MeshTest, AHigherStageInsideAHostIsNoLoss) {
  const PlannedJob planned = Plan({8, 8}, LeastBytes({8, 8}));
  EXPECT_EQ(Mesh(planned), (Shape{2, 8}));
  EXPECT_GT(planned.plan.zero, 1);
  EXPECT_EQ(planned.plan.recompute, RecomputeLevel::kNone);
}

TEST_F(MeshTest, AllShareOneReplicaWhereAHostCannotHoldIt) {
  const uint64_t memory = LeastBytes({});
  ASSERT_LT(memory, LeastBytes({8, 8}));
  const PlannedJob planned = Plan({8, 8}, memory);
  EXPECT_EQ(Mesh(planned), (Shape{1, 16}));
  EXPECT_EQ(planned.plan.recompute, RecomputeLevel::kNone);
  EXPECT_TRUE(
      Says(planned, "parallelism is replicate 1 x shard 16: the 8 ranks of one host cannot"));
}

TEST_F(MeshTest, OneReplicaOnUnequalSingleOrUnknownHosts) {
  const PlannedJob unequal = Plan({10, 6});
  EXPECT_EQ(Mesh(unequal), (Shape{1, 16}));
  EXPECT_TRUE(Says(unequal, "the 2 hosts have different numbers of ranks"));
  for (const Shape& hosts : {Shape{}, Shape{16}, Shape(16, 1)}) {
    const PlannedJob planned = Plan(hosts);
    EXPECT_EQ(Mesh(planned), (Shape{1, 16}));
    EXPECT_FALSE(Says(planned, "parallelism is"));
  }
}

// Invariant planner-7.
TEST_F(MeshTest, KeepsWhatTheJobSets) {
  job_.shard = 16;
  EXPECT_EQ(Mesh(Plan({8, 8})), (Shape{1, 16}));
  job_.shard.reset();
  job_.replicate = 4;
  EXPECT_EQ(Mesh(Plan({8, 8})), (Shape{4, 4}));
  EXPECT_FALSE(Says(Plan({8, 8}), "parallelism is"));
  job_.replicate.reset();
  job_.zero = 2;
  EXPECT_EQ(Mesh(Plan({8, 8})), (Shape{2, 8}));
  EXPECT_EQ(Plan({8, 8}).plan.zero, 2);
  job_.zero = 0;
  EXPECT_EQ(Mesh(Plan({8, 8})), (Shape{16, 1}));
}

}  // namespace
}  // namespace coxswain::planner
