// The rows of step_bench are jobs that the planner accepts for an H200, as the table states them.
#include "bench/worker/engine/step_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "bench/worker/engine/step_data.h"
#include "bench/worker/engine/step_plan.h"

namespace coxswain::bench {
namespace {

constexpr uint64_t kH200Bytes = uint64_t{139} << 30;
constexpr double kGib = int64_t{1} << 30;

class StepRowsTest : public testing::Test {
 protected:
  // A row that has to fit into less is planned for less.
  static uint64_t Memory(const Row& row) {
    return row.memory_limit > 0 ? static_cast<uint64_t>(row.memory_limit * kGib) : kH200Bytes;
  }
  static PlannedRow PlanOf(const Row& row) {
    auto planned = PlanRow(row, testing::TempDir() + "/step_rows_" + row.name, 3,
                           {.memory_bytes = Memory(row), .compute_capability = 90});
    EXPECT_TRUE(planned.ok()) << row.name << ": " << planned.status();
    return planned.ok() ? *std::move(planned) : PlannedRow{};
  }
};

TEST_F(StepRowsTest, PlansEveryRowWithTheParametersCountedByHand) {
  for (const char* device : {"cpu", "cuda"}) {
    for (const Row& row : Rows(device)) {
      const PlannedRow planned = PlanOf(row);
      EXPECT_EQ(planned.planned.estimate.trainable_parameters, row.parameters) << row.name;
      EXPECT_EQ(planned.planned.plan.micro_batch_bins, row.micro_bins) << row.name;
      EXPECT_EQ(planned.planned.plan.device, FromString<DeviceKind>(device)) << row.name;
    }
  }
}

TEST_F(StepRowsTest, PlansTheNumberFormatsOfTheTable) {
  for (const Row& row : Rows("cuda")) {
    const plan::Plan plan = PlanOf(row).planned.plan;
    const bool asked = !row.settings.empty() &&
                       row.settings[0].find("master_weights: bfloat16") != std::string::npos;
    const bool rounded = row.name.starts_with("7b_full_1024") || asked;
    EXPECT_EQ(plan.compute_dtype, Precision::kBfloat16) << row.name;
    EXPECT_EQ(plan.master_dtype, rounded ? Precision::kBfloat16 : Precision::kFloat32) << row.name;
    EXPECT_EQ(plan.attention_deterministic, !row.name.ends_with("_fast_attention")) << row.name;
    // These take the level that fits.
    const bool automatic = plan.model.mixture.experts > 0 ||
                           (!row.settings.empty() && row.settings[0] == "recompute: auto");
    const RecomputeLevel again =
        row.name.ends_with("_norm_swiglu") ? RecomputeLevel::kNormSwiglu : RecomputeLevel::kNone;
    const bool block = row.memory_limit > 0 || row.name.ends_with("_block");
    EXPECT_EQ(plan.recompute, block       ? RecomputeLevel::kBlock
                              : automatic ? plan.recompute
                                          : again)
        << row.name;
    const bool mxfp4 = row.name.find("_mxfp4_") != std::string::npos;
    const Quantization format = mxfp4 ? Quantization::kMxfp4 : Quantization::kNf4Double;
    EXPECT_EQ(plan.quantization, row.quantized ? format : Quantization::kNone) << row.name;
  }
}

TEST_F(StepRowsTest, PlansTheMemoryThatIsPromised) {
  const std::map<std::string, double> most = {{"0.5b_full_1024", 44},
                                              {"0.5b_full_1024_norm_swiglu", 32}};
  for (const Row& row : Rows("cuda")) {
    if (!most.contains(row.name)) continue;
    const auto bytes = static_cast<double>(PlanOf(row).planned.estimate.total_bytes);
    EXPECT_LE(bytes / kGib, most.at(row.name)) << row.name;
  }
}

// gpt-oss-20b on its MXFP4, as one GPU of 80 GB plans it.
TEST_F(StepRowsTest, PlansGptOssForOneGpuOf80Gb) {
  constexpr uint64_t kBytes = uint64_t{79} << 30;
  size_t seen = 0;
  for (const Row& row : Rows("cuda")) {
    if (row.model != "gpt_oss_20b") continue;
    const auto planned = PlanRow(row, testing::TempDir() + "/step_rows_80_gb", 3,
                                 {.memory_bytes = kBytes, .compute_capability = 90});
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_EQ(planned->planned.plan.micro_batch_bins, 4);
    EXPECT_LE(planned->planned.estimate.total_bytes, kBytes);
    // 4.25 bits of 19.1 billion elements of experts, gate and up of the 32 of a block in bfloat16,
    // 1.8 billion other weights.
    EXPECT_EQ(planned->planned.plan.experts_at_once, 32);
    const auto weights = static_cast<double>(planned->planned.estimate.weights);
    const double at_once = 32 * 5760 * 2880 * 2 / 1e9;
    EXPECT_NEAR(weights / 1e9, 19.11 * 17 / 32 + at_once + 1.80 * 2 + 0.185 * 6, 0.1);
    ++seen;
  }
  EXPECT_EQ(seen, 1u);
}

// What our own kernels keep of long documents is less than products take anyway.
TEST_F(StepRowsTest, PlansTheWorkspaceOfLongDocuments) {
  const std::map<std::string, double> gib = {{"0.5b_full_8192", 0.0625},
                                             {"0.5b_full_8192_4gib", 4},
                                             {"0.5b_full_32768", 0.0625},
                                             {"0.5b_full_32768_4gib", 4}};
  size_t seen = 0;
  for (const Row& row : Rows("cuda")) {
    if (!gib.contains(row.name)) continue;
    const auto bytes = static_cast<double>(PlanOf(row).planned.plan.attention_workspace_bytes);
    EXPECT_NEAR(bytes / kGib, gib.at(row.name), 0.01) << row.name;
    ++seen;
  }
  EXPECT_EQ(seen, gib.size());
}

TEST_F(StepRowsTest, MakesAStepOfWholeBinsWithEveryTarget) {
  for (const Row& row : Rows("cuda")) {
    const bool packed = row.documents != Documents::kWhole;
    if (!packed && row.name != "0.5b_full_1024") continue;
    const PlannedRow planned = PlanOf(row);
    const engine::TrainStep step = MakeStep(*planned.recipe, *planned.data.train, 0);
    const auto documents = static_cast<int64_t>(step.bins.document_lengths.size());
    const auto tokens = static_cast<int64_t>(step.bins.token_ids.size());
    EXPECT_EQ(static_cast<int64_t>(step.bins.bin_ids.size()), row.micro_bins * row.micro_steps);
    EXPECT_EQ(step.loss_denominator, tokens - documents);
    const int64_t slots = row.micro_bins * row.micro_steps * row.sequence_len;
    // Bins of 512 hold few documents.
    EXPECT_GE(tokens, slots * (row.sequence_len > 512 ? 98 : 97) / 100) << row.name;
    EXPECT_LE(tokens, slots);
  }
}

}  // namespace
}  // namespace coxswain::bench
