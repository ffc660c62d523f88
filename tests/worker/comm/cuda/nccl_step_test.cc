// W ranks with a GPU each compute what one rank computes. Invariant engine-5 on GPUs.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <vector>

#include "common/plan/embedding_rows.h"
#include "common/plan/fp8_linears.h"
#include "tests/worker/comm/cuda/nccl_rank.h"
#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {
namespace nccl_step_test {
namespace {

using comm::ThisRank;

constexpr int kSteps = 10;

struct Setting {
  const char* name;
  int64_t lora_rank;
  const char* dtype;
  int32_t replicate, zero;                // zero 0: replicas alone
  double loss_tolerance, norm_tolerance;  // relative
  int32_t vocab = 131;  // 20011: embeddings of a size that is copied between GPUs, rows exchanged
  const char* kind = nullptr;  // of block_kinds.h, with experts
  plan::GradientSum sum = plan::GradientSum::kNearest;
  // In FP8 a micro-step is one bin on any mesh, so that its scales are the same.
  plan::Fp8Recipe fp8 = plan::Fp8Recipe::kNone;
  bool codes = false;  // are gathered
};

Setting Fp8(const char* name, int64_t lora_rank, int32_t zero,
            plan::Fp8Recipe recipe = plan::Fp8Recipe::kTensorwise) {
  Setting setting{name, lora_rank, "bfloat16", 1, zero, 1e-2, 5e-2};
  setting.fp8 = recipe;
  return setting;
}
Setting WithCodes(Setting setting) {
  setting.codes = true;
  return setting;
}

constexpr const char* kShared = "SharedExperts";
constexpr const char* kGrouped = "GroupedExperts";

PlanOptions Options(const Setting& setting, int32_t world) {
  PlanOptions options;
  options.init = "random";
  options.replicate = world > 1 && setting.zero > 0 ? setting.replicate : world;
  options.shard = world / options.replicate;
  options.zero = options.shard > 1 ? setting.zero : 0;
  options.sequence_len = 48;
  options.micro_batch_bins = setting.fp8 == plan::Fp8Recipe::kNone ? 2 : 1;
  options.fp8.recipe = setting.fp8;
  options.fp8.keeps_weights = options.zero != 3;
  options.fp8.gathers_codes = setting.codes && world > 1;
  options.lora_rank = setting.lora_rank;
  if (setting.kind != nullptr) {
    options.lora_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  }
  options.compute_dtype = setting.dtype;
  options.gradient_dtype = setting.lora_rank == 0 ? setting.dtype : "float32";
  options.gradient_sum = setting.sum;
  return options;
}

// Extents that attention in bfloat16 takes too.
model::ModelConfig Config(const Setting& setting) {
  model::ModelConfig config = SmallConfig();
  for (const BlockKind& kind : BlockKinds()) {
    if (setting.kind == nullptr || kind.name != setting.kind) continue;
    config = kind.config;
    config.mixture.width = config.mixture.shared_width = 32;
  }
  config.vocab_size = setting.vocab;
  config.head_dim = 16;
  config.hidden_size = 64;
  if (setting.fp8 != plan::Fp8Recipe::kNone) config.intermediate_size = 144;
  return config;
}

// Two bins a rank and one more: the last rank has three.
std::vector<BinBatch> Batches(int64_t vocab) {
  std::vector<std::vector<int32_t>> lengths;
  for (int rank = 0; rank < ThisRank().world; ++rank) {
    lengths.push_back({5, 1, 17, 9});
    lengths.push_back({31, 3});
  }
  lengths.push_back({40});
  std::vector<BinBatch> batches;
  for (uint64_t step = 0; step < kSteps; ++step) {
    batches.push_back(RandomBins(lengths, vocab, 100 + step));
  }
  return batches;
}

std::vector<StepStats> Train(const plan::Plan& plan, int rank,
                             std::unique_ptr<comm::Collectives> group) {
  std::vector<StepStats> stats;
  auto engine = Engine::Prepare(plan, rank, "");
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (!engine.ok()) return stats;
  if (group != nullptr) {
    EXPECT_TRUE((*engine)->Connect(std::move(group)).ok());
  }
  const int64_t world = plan.world_size();
  for (int64_t step = 0; step < kSteps; ++step) {
    const BinBatch all = Batches(plan.model.vocab_size)[static_cast<size_t>(step)];
    TrainStep train = MakeStep(step, all);
    const size_t first = static_cast<size_t>(2 * rank);
    const size_t count = rank + 1 == world ? all.bin_ids.size() - first : 2;
    train.bins = Slice(all, first, count);
    if (world > 1) train.bins.micro_steps = plan.micro_batch_bins == 1 ? 3 : 2;  // of the last rank
    const auto result = (*engine)->Train(train);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) break;
    stats.push_back(*result);
  }
  return stats;
}

// Loss and norm of a step, as text that keeps their bits.
std::string BitsOf(const std::vector<StepStats>& stats) {
  std::string text;
  for (const StepStats& step : stats) {
    absl::StrAppend(&text, absl::Hex(std::bit_cast<uint64_t>(step.global_loss_sum)), " ",
                    absl::Hex(std::bit_cast<uint64_t>(step.grad_norm)), "\n");
  }
  return text;
}

class NcclStep : public testing::TestWithParam<Setting> {};
// Float32: sums over ranks round in another order. Bfloat16: gradients are rounded to 8 bits once
// more for each rank they pass, and what training makes of that grows from step to step.
INSTANTIATE_TEST_SUITE_P(
    Settings, NcclStep,
    testing::Values(Setting{"full_float32", 0, "float32", 1, 0, 1e-5, 1e-4},
                    Setting{"full_float32_zero1", 0, "float32", 1, 1, 1e-5, 1e-4},
                    Setting{"full_float32_zero2", 0, "float32", 1, 2, 1e-5, 1e-4},
                    Setting{"full_float32_zero3", 0, "float32", 1, 3, 1e-5, 1e-4},
                    Setting{"hybrid_float32_zero3", 0, "float32", 2, 3, 1e-5, 1e-4},
                    Setting{"lora_float32", 4, "float32", 1, 0, 1e-5, 1e-4},
                    Setting{"lora_float32_zero1", 4, "float32", 1, 1, 1e-5, 1e-4},
                    Setting{"lora_float32_zero3", 4, "float32", 1, 3, 1e-5, 1e-4},
                    Setting{"full_bfloat16", 0, "bfloat16", 1, 0, 1e-2, 5e-2},
                    Setting{"full_bfloat16_zero1", 0, "bfloat16", 1, 1, 1e-2, 5e-2},
                    Setting{"full_bfloat16_zero3", 0, "bfloat16", 1, 3, 1e-2, 5e-2},
                    Setting{"large_float32_zero1", 0, "float32", 1, 1, 1e-5, 1e-4, 20011},
                    Setting{"large_float32_zero3", 0, "float32", 1, 3, 1e-5, 1e-4, 20011},
                    Setting{"large_bfloat16_zero2", 0, "bfloat16", 1, 2, 1e-2, 5e-2, 20011},
                    Setting{"compensated_zero1", 0, "bfloat16", 1, 1, 1e-2, 5e-2, 20011, nullptr,
                            plan::GradientSum::kCompensated},
                    Setting{"stochastic_zero1", 0, "bfloat16", 1, 1, 1e-2, 5e-2, 20011, nullptr,
                            plan::GradientSum::kStochastic},
                    Setting{"hybrid_compensated", 0, "bfloat16", 2, 2, 1e-2, 5e-2, 20011, nullptr,
                            plan::GradientSum::kCompensated},
                    Fp8("fp8", 0, 0), Fp8("fp8_zero1", 0, 1), Fp8("fp8_zero3", 0, 3),
                    Fp8("fp8_lora", 4, 0), Fp8("fp8_delayed", 0, 0, plan::Fp8Recipe::kDelayed),
                    Fp8("fp8_delayed_zero3", 0, 3, plan::Fp8Recipe::kDelayed),
                    WithCodes(Fp8("fp8_codes_zero3", 0, 3)),
                    WithCodes(Fp8("fp8_codes_delayed_zero3", 0, 3, plan::Fp8Recipe::kDelayed)),
                    WithCodes(Fp8("fp8_codes_lora_zero3", 4, 3)),
                    Setting{"lora_bfloat16", 4, "bfloat16", 1, 0, 1e-2, 5e-2},
                    Setting{"lora_bfloat16_zero3", 4, "bfloat16", 1, 3, 1e-2, 5e-2},
                    Setting{"experts_float32", 0, "float32", 1, 0, 1e-5, 1e-4, 131, kShared},
                    Setting{"experts_float32_zero1", 0, "float32", 1, 1, 1e-5, 1e-4, 131, kGrouped},
                    Setting{"experts_float32_zero3", 0, "float32", 1, 3, 1e-5, 1e-4, 131, kGrouped},
                    Setting{"experts_lora_float32", 4, "float32", 1, 0, 1e-5, 1e-4, 131, kGrouped},
                    Setting{"experts_lora_zero3", 4, "float32", 1, 3, 1e-5, 1e-4, 131, kShared},
                    Setting{"experts_bfloat16_zero3", 0, "bfloat16", 1, 3, 1e-2, 5e-2, 131,
                            kShared}),
    [](const auto& info) { return info.param.name; });

TEST_P(NcclStep, RanksEqualOneAndEachOther) {
  const Setting& setting = GetParam();
  const int world = ThisRank().world, rank = ThisRank().rank;
  if (world % setting.replicate != 0) GTEST_SKIP() << "two replicas need an even number of GPUs";
  const plan::Plan plan = MakePlan(Config(setting), Options(setting, world));
  EXPECT_EQ(plan::ExchangesEmbeddingRows(plan), world > 1 && setting.vocab > 131);
  std::vector<std::string> bits;
  std::vector<StepStats> many;
  for (const char* run : {"first", "second"}) {
    auto group = comm::Form(run, plan.shard);
    ASSERT_NE(group, nullptr);
    many = Train(plan, rank, std::move(group));
    ASSERT_EQ(many.size(), static_cast<size_t>(kSteps));
    bits.push_back(BitsOf(many));
    // The group goes with the engine: no rank may be in it any more.
    const auto meeting = comm::MeetAt(absl::StrCat("bits-", run));
    ASSERT_TRUE(meeting->Set(absl::StrCat("rank", rank), bits.back()).ok());
    for (int r = 0; r < world; ++r) {
      EXPECT_EQ(meeting->Get(absl::StrCat("rank", r), std::chrono::milliseconds(60000)).value(),
                bits.back())
          << "rank " << r << " against " << rank;
    }
  }
  EXPECT_EQ(bits[0], bits[1]) << "two runs differ";
  const std::vector<StepStats> one =
      Train(MakePlan(Config(setting), Options(setting, 1)), 0, nullptr);
  ASSERT_EQ(one.size(), many.size());
  for (size_t step = 0; step < one.size(); ++step) {
    EXPECT_NEAR(many[step].global_loss_sum / one[step].global_loss_sum, 1.0, setting.loss_tolerance)
        << "step " << step;
    EXPECT_NEAR(many[step].grad_norm / one[step].grad_norm, 1.0, setting.norm_tolerance)
        << "step " << step;
  }
}

// Ranks that gather codes of weights train with the bits of ranks that gather their values.
TEST(NcclFp8GatherTest, CodesGiveTheLossesOfValues) {
  for (const plan::Fp8Recipe recipe : {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kDelayed}) {
    std::vector<std::vector<double>> losses;
    for (const bool codes : {false, true}) {
      Setting setting = Fp8("", 0, 3, recipe);
      setting.codes = codes;
      plan::Plan plan = MakePlan(Config(setting), Options(setting, ThisRank().world));
      plan.max_grad_norm = 0;  // a clipped update has the norm's rounding
      auto group = comm::Form(absl::StrCat("gather-", static_cast<int>(recipe), codes), plan.shard);
      ASSERT_NE(group, nullptr);
      losses.emplace_back();
      for (const StepStats& step : Train(plan, ThisRank().rank, std::move(group))) {
        losses.back().push_back(step.global_loss_sum);
      }
      ASSERT_EQ(losses.back().size(), static_cast<size_t>(kSteps));
    }
    EXPECT_EQ(losses[0], losses[1]) << plan::NameOf(recipe);
  }
}

}  // namespace
}  // namespace nccl_step_test
}  // namespace coxswain::engine
