#include "controller/planner/time/comm_time.h"

#include "common/model/family.h"
#include "common/plan/fp8_gather.h"
#include "controller/planner/model/parameter_groups.h"
#include "gtest/gtest.h"
#include "tests/controller/planner/job_fixture.h"

namespace coxswain::planner {
namespace {

class CommTimeTest : public testing::Test {
 protected:
  CommTimeTest() {
    job_.adapter = config::Adapter::kNone;
    plan_.model = SmallModel();
    plan_.device = DeviceKind::kCuda;
    plan_.compute_dtype = Precision::kBfloat16;
    plan_.links = {{1, 1e9}};  // a byte takes a nanosecond, whatever the size
    EXPECT_TRUE(MakeParameters(job_, &plan_).ok());
  }
  plan::Prediction Predict(int32_t replicate, int32_t shard, int32_t zero, double compute,
                           int64_t micro_steps = 1) {
    plan_.replicate = replicate;
    plan_.shard = shard;
    plan_.zero = zero;
    return PredictStep(plan_, {compute, compute, 0, micro_steps, 3.2e12});
  }

  config::JobSpec job_ = SmallJob();
  plan::Plan plan_;
};

TEST_F(CommTimeTest, LinkIsLinearInTimeBetweenPoints) {
  const std::vector<plan::LinkSpeed> links = {{1000, 1e9}, {3000, 1.5e9}};
  EXPECT_DOUBLE_EQ(LinkSeconds(links, 1000), 1e-6);
  EXPECT_DOUBLE_EQ(LinkSeconds(links, 2000), 1.5e-6);
  EXPECT_DOUBLE_EQ(LinkSeconds(links, 5000), 3e-6);
  EXPECT_DOUBLE_EQ(LinkSeconds(links, 0), 0);
}

TEST_F(CommTimeTest, OneRankWaitsForNothing) {
  const plan::Prediction one = Predict(1, 1, 0, 0.5, 2);
  EXPECT_NEAR(one.step_seconds, 2.0, 1e-12);
  EXPECT_EQ(one.comm_seconds, 0);
  EXPECT_EQ(one.exposed_seconds, 0);
}

TEST_F(CommTimeTest, StagesSendWhatTheyMust) {
  double elements = 0;
  for (const model::Parameter& p : plan_.parameters) elements += static_cast<double>(p.elements());
  // bfloat16 weights gathered, float32 gradients scattered: 3/4 of each with 4 ranks.
  const double once = 1e-9 * 0.75 * (2 + 4) * elements;
  const double slow = 1e3;
  EXPECT_NEAR(Predict(1, 4, 1, slow).comm_seconds / once, 1.0, 0.1);  // padding
  EXPECT_NEAR(Predict(1, 4, 1, slow, 8).comm_seconds / once, 1.0, 0.1);
  EXPECT_GT(Predict(1, 4, 2, slow, 8).comm_seconds, 4 * once);  // gradients in each micro-step
  const double gradients = Predict(1, 4, 2, slow, 8).comm_seconds;
  EXPECT_GT(Predict(1, 4, 3, slow, 8).comm_seconds, 1.1 * gradients);
  plan_.weight_slots = 3;  // every block: its weights are gathered once
  EXPECT_DOUBLE_EQ(Predict(1, 4, 3, slow, 8).comm_seconds, gradients);
  plan_.weight_slots = 2;
  const double replicas = Predict(2, 4, 1, slow).comm_seconds;
  EXPECT_NEAR(replicas - Predict(1, 4, 1, slow).comm_seconds, 1e-9 * elements, 1e-10 * elements);
}

// A byte of a weight of a linear travels instead of two, forward and backward: 3/4 of them each.
TEST_F(CommTimeTest, CodesOfWeightsAreHalfOfThem) {
  plan_.model.intermediate_size = 48;
  plan_.architecture = model::ArchitectureOf(plan_.model);
  ASSERT_TRUE(MakeParameters(job_, &plan_).ok());
  plan_.fp8.recipe = plan::Fp8Recipe::kTensorwise;
  const double slow = 1e3, values = Predict(1, 4, 3, slow).comm_seconds;
  plan_.fp8.gathers_codes = true;
  const double codes = Predict(1, 4, 3, slow).comm_seconds;
  // Three blocks in two slots: backward finds the two that forward left.
  const auto of_block = static_cast<double>(plan::GatheredBytesOf(plan_).codes);
  EXPECT_NEAR(values - codes, 1e-9 * 0.75 * 4 * of_block, 1e-12);
  const double whole = Predict(1, 4, 2, slow).comm_seconds;
  plan_.fp8.gathers_codes = false;
  EXPECT_EQ(Predict(1, 4, 2, slow).comm_seconds, whole);
}

TEST_F(CommTimeTest, ComputeHidesCommunication) {
  const double comm = Predict(1, 4, 3, 1).comm_seconds;
  const plan::Prediction fast = Predict(1, 4, 3, comm / 100), slow = Predict(1, 4, 3, 100 * comm);
  EXPECT_GT(fast.exposed_seconds, 0.9 * comm);
  EXPECT_LT(slow.exposed_seconds, 0.6 * comm);  // the first gather and the last reduction remain
  EXPECT_NEAR(slow.step_seconds, 200 * comm + slow.exposed_seconds, 1e-9);
}

TEST_F(CommTimeTest, WithoutOverlapComputeWaitsForAll) {
  for (const int32_t zero : {1, 3}) {
    plan_.overlap = true;
    const plan::Prediction with = Predict(2, 4, zero, 1, 2);
    plan_.overlap = false;
    const plan::Prediction without = Predict(2, 4, zero, 1, 2);
    EXPECT_DOUBLE_EQ(without.comm_seconds, with.comm_seconds);
    EXPECT_LT(with.exposed_seconds, 0.9 * with.comm_seconds);
    EXPECT_NEAR(without.exposed_seconds, without.comm_seconds, 1e-9);
    EXPECT_NEAR(without.step_seconds, 4 + without.comm_seconds, 1e-9);
  }
}

// The base of an adapter does not change: of resident blocks adapters alone are gathered.
TEST_F(CommTimeTest, AFrozenBaseStaysWhereItIsResident) {
  job_.adapter = config::Adapter::kLora;
  ASSERT_TRUE(MakeParameters(job_, &plan_).ok());
  const double slow = 1e3;
  const double two = Predict(1, 4, 3, slow).comm_seconds;
  plan_.weight_slots = 3;
  const double three = Predict(1, 4, 3, slow).comm_seconds;
  EXPECT_LT(three, two);
  EXPECT_NEAR(three, Predict(1, 4, 2, slow).comm_seconds, 1e-12);
}

// A vocabulary much larger than a micro-step's tokens: rows go last, in the place of the matrix,
// whose reduction is hidden behind the blocks.
TEST_F(CommTimeTest, RowsOfTheEmbeddingHideItsReduction) {
  plan_.sequence_len = 8;
  plan_.lm_head_chunk_tokens = 8;
  const double hidden = static_cast<double>(plan_.model.hidden_size), slow = 1e3;
  const double matrix = 1e-9 * 0.75 * 4 * static_cast<double>(plan_.model.vocab_size) * hidden;
  const double rows = 1e-9 * 3 * 8 * (2 * hidden + 4);
  const plan::Prediction with = Predict(1, 4, 1, slow);
  plan_.lm_head_chunk_tokens = 0;  // the rows would not fit
  const plan::Prediction without = Predict(1, 4, 1, slow);
  EXPECT_NEAR(with.comm_seconds - without.comm_seconds, rows, 1e-12);
  EXPECT_NEAR(without.exposed_seconds - with.exposed_seconds, matrix - rows, 1e-12);
}

// All codes are read and all values written in each pass, once more where products are computed
// again: of the two stacks, 2 to 1, that of down or both; in the stream of compute.
TEST_F(CommTimeTest, ExpertsInRangesAreDequantisedInEveryPass) {
  job_.adapter = config::Adapter::kLora;
  job_.quantization = "mxfp4";
  plan_.model = SmallExperts();
  plan_.experts_at_once = 2;
  ASSERT_TRUE(MakeParameters(job_, &plan_).ok());
  const double elements = 3 * 6 * 64 * 32 * 3;
  const double pass = elements * (17.0 / 32 + 2) / 3.2e12;
  for (const auto& [level, passes] : {std::pair{"none", 2.0},
                                      {"norm_swiglu", 2.0},
                                      {"expert_out", 2 + 1.0 / 3},
                                      {"ffn", 3.0},
                                      {"block", 3.0}}) {
    plan_.recompute = *FromString<RecomputeLevel>(level);
    EXPECT_NEAR(Predict(1, 1, 0, 1e-6).step_seconds - 2e-6, passes * pass, 1e-12) << level;
  }
}

// One thread: the engine's calls run in order.
TEST_F(CommTimeTest, OnTheCpuComputeWaitsForAll) {
  plan_.device = DeviceKind::kCpu;
  const plan::Prediction cpu = Predict(1, 4, 3, 1, 2);
  EXPECT_GT(cpu.comm_seconds, 0);
  EXPECT_NEAR(cpu.exposed_seconds, cpu.comm_seconds, 1e-9);
}

}  // namespace
}  // namespace coxswain::planner
