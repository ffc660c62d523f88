// The first micro-step writes what products compute and the rest is cleared: no gradient of the
// step before is left, whatever it was.
#include "worker/engine/memory/written_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/plan/gradient_sum.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"

namespace coxswain::engine {
namespace written_gradients_test {
namespace {

struct Job {
  std::string name;
  model::ModelConfig config;
  PlanOptions options;
};

PlanOptions Options() {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.head_chunk = 8;
  return options;
}

model::ModelConfig WithBiases() {
  model::ModelConfig config = SmallConfig();
  config.architecture = "LlamaForCausalLM";
  config.tie_embeddings = false;
  config.output_bias = config.mlp_bias = config.qk_norm = true;
  return config;
}

std::vector<Job> FullJobs() {
  std::vector<Job> jobs = {{"tied", SmallConfig(), Options()}, {"biases", WithBiases(), Options()}};
  jobs.push_back({"gaps", BlockyConfig(), Options()});
  jobs.back().options.optimizer = "adamw_8bit";
  for (const BlockKind& kind : BlockKinds()) jobs.push_back({kind.name, kind.config, Options()});
  if (TestDevice() == "cpu") return jobs;
  for (const char* gradient : {"float32", "bfloat16"}) {
    jobs.push_back({std::string("bfloat16, gradients ") + gradient, SmallConfig(), Options()});
    jobs.back().config.head_dim = 16;
    jobs.back().options.compute_dtype = "bfloat16";
    jobs.back().options.gradient_dtype = gradient;
  }
  for (const auto sum : {plan::GradientSum::kStochastic, plan::GradientSum::kCompensated}) {
    jobs.push_back(jobs.back());
    jobs.back().name = std::string("gradients ") + plan::GradientSumName(sum);
    jobs.back().config.tie_embeddings = false;
    jobs.back().options.gradient_sum = sum;
  }
  return jobs;
}

std::vector<Job> AdapterJobs() {
  std::vector<Job> jobs(4, Job{"", SmallConfig(), Options()});
  for (Job& job : jobs) job.options.lora_rank = 3;
  jobs[0].name = "lora";
  jobs[1].name = "dora";
  jobs[1].options.dora = true;
  jobs[2].name = "saved";
  jobs[2].options.modules_to_save = {"embed_tokens", "lm_head", "norm"};
  jobs[2].config.tie_embeddings = false;
  jobs[3].name = "outer";
  jobs[3].options.lora_targets = {"embed_tokens", "lm_head", "q_proj"};
  return jobs;
}

void FillGradients(const State& state, int byte) {
  kernels::SetMemory(state.buffers.gradients, byte, state.layout.map.gradients, state.stream);
  kernels::SetMemory(state.buffers.gradient_companions, byte, state.layout.map.companions,
                     state.stream);
}

// 0xFF is NaN in both types.
void ExpectNothingIsLeft(const Job& job, const BinBatch& bins) {
  for (const int64_t micro_batch_bins : {1, 3}) {
    PlanOptions options = job.options;
    options.micro_batch_bins = micro_batch_bins;
    std::string doing;
    const auto state = MakeState(MakePlan(job.config, options), 0, "", &doing);
    ASSERT_TRUE(state.ok()) << job.name << ": " << state.status();
    FillGradients(**state, 0);
    GradientStep(**state, MakeStep(0, bins));
    const std::vector<float> expected = AllGradients(**state);
    FillGradients(**state, 0xFF);
    GradientStep(**state, MakeStep(0, bins));
    EXPECT_EQ(AllGradients(**state), expected) << job.name << " " << micro_batch_bins;
  }
}

const BinBatch& Bins() {
  static const auto* bins =
      new BinBatch(RandomBins({{17, 9, 1}, {31, 3}, {8}}, SmallConfig().vocab_size, 5));
  return *bins;
}

TEST(WrittenGradientsTest, NothingOfTheStepBeforeIsLeft) {
  for (const Job& job : FullJobs()) ExpectNothingIsLeft(job, Bins());
  for (const Job& job : AdapterJobs()) ExpectNothingIsLeft(job, Bins());
}

TEST(WrittenGradientsTest, NothingIsLeftWhereTheFirstMicroStepHasNoTargets) {
  BinBatch bins = Bins();
  std::fill(bins.targets.begin(), bins.targets.begin() + 27, uint8_t{0});
  for (const Job& job : FullJobs()) ExpectNothingIsLeft(job, bins);
  for (const Job& job : AdapterJobs()) ExpectNothingIsLeft(job, bins);
}

TEST(WrittenGradientsTest, AStepWithoutBinsHasNoGradient) {
  std::string doing;
  const auto state = MakeState(MakePlan(SmallConfig(), Options()), 0, "", &doing);
  ASSERT_TRUE(state.ok()) << state.status();
  FillGradients(**state, 0xFF);
  TrainStep step;
  GradientStep(**state, step);
  const std::vector<float> gradients = AllGradients(**state);
  EXPECT_EQ(gradients, std::vector<float>(gradients.size(), 0.0f));
}

// Of a plan whose gradients are float32.
int64_t CountWritten(const model::ModelConfig& config, const PlanOptions& options) {
  const plan::Plan plan = MakePlan(config, options);
  int64_t bytes = 0;
  for (const plan::Range& range : WrittenBytes(plan, plan::ShardMap(plan))) bytes += range.count();
  EXPECT_EQ(bytes % 4, 0);
  return bytes / 4;
}

TEST(WrittenGradientsTest, MatricesOfFullFineTuningAreWritten) {
  model::ModelConfig config = SmallConfig();
  const int64_t outer = config.vocab_size * config.hidden_size;
  const int64_t block = 48 * (48 + 2 * 24) + 48 * 48 + 3 * 48 * 72;
  EXPECT_EQ(CountWritten(config, Options()), 3 * block + outer);
  config.tie_embeddings = false;
  EXPECT_EQ(CountWritten(config, Options()), 3 * block + outer);
}

TEST(WrittenGradientsTest, OfZeroTwoOnlyTheHeadIsWritten) {
  PlanOptions options = Options();
  options.shard = options.zero = 2;
  EXPECT_EQ(CountWritten(SmallConfig(), options), 131 * 48);
}

TEST(WrittenGradientsTest, OfAdaptersNoneIsWritten) {
  PlanOptions options = Options();
  options.lora_rank = 3;
  EXPECT_EQ(CountWritten(SmallConfig(), options), 0);
}

using Ranges = std::vector<plan::Range>;

TEST(WrittenGradientsTest, BesideIsTheRest) {
  EXPECT_EQ(Beside({}, 9), Ranges({{0, 9}}));
  EXPECT_EQ(Beside({}, 0), Ranges());
  EXPECT_EQ(Beside({{2, 4}, {5, 8}}, 9), Ranges({{0, 2}, {4, 5}, {8, 9}}));
  EXPECT_EQ(Beside({{0, 4}, {4, 9}}, 9), Ranges());
}

}  // namespace
}  // namespace written_gradients_test
}  // namespace coxswain::engine
