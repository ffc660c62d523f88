// Packed documents are independent, and how a batch is cut does not matter. Invariants engine-2,
// engine-3, engine-4.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace packing_test {
namespace {

// Relative float32 error of a sum over a few hundred tokens that is added in another order: below
// 8 eps = 2^-20.
constexpr double kSplitLimit = 1e-6;

struct Gradients {
  double loss_sum = 0;
  std::vector<float> values;
  std::vector<float> input;  // gradient of the embedded tokens of the last micro-step
  std::vector<float> final_norm;
};

plan::Plan Plan(const PlanOptions& options, bool qk_norm = false) {
  PlanOptions random = options;
  random.init = "random";
  model::ModelConfig config = SmallConfig();
  config.layer_windows = {0, 7, 0};
  config.qk_norm = qk_norm;
  return MakePlan(config, random);
}

Gradients GradientsOf(const plan::Plan& plan, const BinBatch& bins, int64_t step = 3) {
  std::string doing;
  absl::StatusOr<std::unique_ptr<State>> state = MakeState(plan, 0, "", &doing);
  EXPECT_TRUE(state.ok()) << state.status();
  State& s = **state;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {  // adapters that do something
    if (!model::IsLoraB(plan.parameters[i])) continue;
    std::vector<float> b(static_cast<size_t>(plan.parameters[i].elements()));
    for (size_t j = 0; j < b.size(); ++j) b[j] = 0.01f * std::sin(static_cast<float>(j));
    SetTrainedValues(s, i, b);
  }
  Gradients out;
  out.loss_sum = GradientStep(s, MakeStep(step, bins));
  out.values = AllGradients(s);
  if (bins.bin_ids.size() <= static_cast<size_t>(plan.micro_batch_bins)) {
    out.input = TokenRows(s, bins, s.buffers.dres, plan.model.hidden_size);
    out.final_norm = TokenRows(s, bins, s.buffers.final_norm, plan.model.hidden_size);
  }
  return out;
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

void ExpectSame(const Gradients& a, const Gradients& b) {
  EXPECT_NEAR(a.loss_sum / b.loss_sum, 1.0, kSplitLimit);
  EXPECT_NEAR(Norm(a.values) / Norm(b.values), 1.0, kSplitLimit);
  EXPECT_LE(RelativeError(a.values, b.values), 2e-6);
}

const std::vector<std::vector<int32_t>> kLengths = {
    {5, 1, 17, 9, 2}, {31, 3}, {40}, {1, 1, 1, 20}, {13, 13, 13}};

// [T, H], behind the last norm.
std::vector<float> NormsOf(const model::ModelConfig& config, const BinBatch& bins) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  return GradientsOf(MakePlan(config, options), bins).final_norm;
}

// As transformers rotates each of them alone, whatever else is in its bin. Other plans have the
// same factors for all of their documents.
TEST(PackingTest, LongRopeHasTheFactorsOfEachDocument) {
  const BinBatch both = RandomBins({{12, 13}}, SmallConfig().vocab_size, 5);
  const BinBatch apart = OneByOne(both);
  model::ModelConfig all_short = LongRopeConfig(40), all_long = all_short;
  all_long.rope.short_factors = all_long.rope.long_factors;
  std::vector<float> expected = NormsOf(all_short, Slice(apart, 0, 1));
  const std::vector<float> second = NormsOf(all_long, Slice(apart, 1, 1));
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_LE(RelativeError(NormsOf(LongRopeConfig(12), both), expected), kSplitLimit);
  for (const model::ModelConfig& alike : {all_short, all_long}) {
    EXPECT_GT(RelativeError(NormsOf(alike, both), expected), 100 * kSplitLimit);
  }
}

TEST(PackingTest, PackedEqualsOneByOne) {
  PlanOptions options;
  options.sequence_len = 40;
  options.micro_batch_bins = 5;
  const BinBatch bins = RandomBins(kLengths, SmallConfig().vocab_size, 1);
  const Gradients packed = GradientsOf(Plan(options), bins);
  options.micro_batch_bins = 1;
  ExpectSame(GradientsOf(Plan(options), OneByOne(bins)), packed);
}

TEST(PackingTest, DocumentsDoNotSeeEachOther) {
  PlanOptions options;
  options.sequence_len = 64;
  const BinBatch bins = RandomBins({{19, 23, 11}}, SmallConfig().vocab_size, 2);
  BinBatch perturbed = bins;
  for (size_t t = 19; t < 42; ++t) perturbed.token_ids[t] = (perturbed.token_ids[t] + 7) % 131;
  const Gradients a = GradientsOf(Plan(options), bins), b = GradientsOf(Plan(options), perturbed);
  const size_t hidden = static_cast<size_t>(SmallConfig().hidden_size);
  const auto equal = [&](const std::vector<float>& x, const std::vector<float>& y, size_t first,
                         size_t tokens) {
    return std::memcmp(x.data() + first * hidden, y.data() + first * hidden,
                       tokens * hidden * sizeof(float)) == 0;
  };
  for (const auto& [first, tokens] : {std::pair<size_t, size_t>{0, 19}, {42, 11}}) {
    EXPECT_TRUE(equal(a.final_norm, b.final_norm, first, tokens)) << "document at " << first;
    EXPECT_TRUE(equal(a.input, b.input, first, tokens)) << "document at " << first;
  }
  EXPECT_FALSE(equal(a.final_norm, b.final_norm, 19, 23));
}

TEST(PackingTest, AnySplitOverMicroStepsGivesTheSameGradient) {
  PlanOptions options;
  options.sequence_len = 40;
  options.lora_rank = 3;
  options.dropout = 0.3;  // its mask follows the token, not the micro-step
  const BinBatch bins = RandomBins(kLengths, SmallConfig().vocab_size, 3);
  options.micro_batch_bins = 5;
  const Gradients whole = GradientsOf(Plan(options), bins);
  for (int64_t micro : {1, 2, 3, 4}) {
    options.micro_batch_bins = micro;
    ExpectSame(GradientsOf(Plan(options), bins), whole);
  }
}

TEST(PackingTest, HeadChunksDoNotChangeTheGradient) {
  PlanOptions options;
  options.sequence_len = 40;
  options.micro_batch_bins = 5;
  const BinBatch bins = RandomBins(kLengths, SmallConfig().vocab_size, 4);
  options.head_chunk = 200;
  const Gradients whole = GradientsOf(Plan(options), bins);
  for (int64_t chunk : {1, 7, 64}) {
    options.head_chunk = chunk;
    ExpectSame(GradientsOf(Plan(options), bins), whole);
  }
}

TEST(PackingTest, RecomputeChangesNoBit) {
  const BinBatch bins = RandomBins(kLengths, SmallConfig().vocab_size, 5);
  for (int64_t rank : {0, 3}) {
    PlanOptions options;
    options.sequence_len = 40;
    options.micro_batch_bins = 2;
    options.lora_rank = rank;
    options.dropout = rank > 0 ? 0.1 : 0.0;
    const bool qk_norm = rank == 0;
    const Gradients kept = GradientsOf(Plan(options, qk_norm), bins);
    options.recompute = "block";
    const Gradients recomputed = GradientsOf(Plan(options, qk_norm), bins);
    EXPECT_EQ(kept.loss_sum, recomputed.loss_sum);
    EXPECT_EQ(std::memcmp(kept.values.data(), recomputed.values.data(),
                          kept.values.size() * sizeof(float)),
              0);
  }
}

TEST(PackingTest, DropoutFollowsStepAndToken) {
  PlanOptions options;
  options.sequence_len = 40;
  options.micro_batch_bins = 5;
  options.lora_rank = 3;
  options.dropout = 0.3;
  const BinBatch bins = RandomBins(kLengths, SmallConfig().vocab_size, 6);
  const Gradients third = GradientsOf(Plan(options), bins, 3),
                  again = GradientsOf(Plan(options), bins, 3);
  EXPECT_EQ(third.values, again.values);
  EXPECT_GT(RelativeError(GradientsOf(Plan(options), bins, 4).values, third.values), 1e-3);
  BinBatch moved = bins;
  moved.bin_ids[0] = 77;
  EXPECT_GT(RelativeError(GradientsOf(Plan(options), moved, 3).values, third.values), 1e-4);
}

}  // namespace
}  // namespace packing_test
}  // namespace coxswain::engine
