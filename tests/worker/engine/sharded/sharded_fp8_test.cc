// W ranks with products in FP8 compute what one rank computes, at every ZeRO stage.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint_tensors.h"
#include "common/plan/fp8_history.h"
#include "common/plan/fp8_linears.h"
#include "kernels/quantize/quantized_formats.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/fp8_amaxes.h"
#include "tests/worker/engine/support/mixture_cases.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/step/step.h"

namespace coxswain::engine {
namespace sharded_fp8_test {
namespace {

constexpr int64_t kSteps = 4;

struct Mesh {
  int32_t replicate = 1, shard = 1, zero = 0;
};

// A micro-step is one bin on any mesh: its scales are the same.
PlanOptions OptionsOf(plan::Fp8Recipe recipe, int64_t lora_rank, const Mesh& mesh) {
  PlanOptions options;
  options.init = "random";
  options.lora_rank = lora_rank;
  options.sequence_len = 40;
  options.replicate = mesh.replicate;
  options.shard = mesh.shard;
  options.zero = mesh.zero;
  options.fp8.recipe = recipe;
  // Gathered weights have no memory of their own for codes.
  options.fp8.keeps_weights = mesh.zero != 3;
  return options;
}

plan::Plan MakeCase(plan::Fp8Recipe recipe, int64_t lora_rank, const Mesh& mesh) {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 64;
  config.head_dim = 16;
  config.intermediate_size = 144;
  return MakePlan(config, OptionsOf(recipe, lora_rank, mesh));
}

// Qwen3-MoE, whose experts are in FP8 and have adapters too. `codes`: plain linears are gathered as
// codes, those of experts as they are.
plan::Plan MakeMixture(plan::Fp8Recipe recipe, int64_t lora_rank, const Mesh& mesh, bool codes) {
  PlanOptions options = OptionsOf(recipe, lora_rank, mesh);
  if (lora_rank > 0)
    options.lora_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  options.fp8.experts = true;
  options.fp8.gathers_codes = codes;
  model::ModelConfig config = MixtureKinds().front().config;
  config.mixture.width = 32;
  return MakePlan(config, options);
}

Ranks Train(const plan::Plan& plan) {
  Ranks run(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, "", [&](int rank, Engine& engine) {
    for (int64_t step = 0; step < kSteps; ++step) {
      TrainStep train =
          MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {39}},
                                    SmallConfig().vocab_size, 100 + static_cast<uint64_t>(step)));
      train.bins = PartOf(plan, train.bins, rank);
      const auto stats = engine.Train(train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      run[static_cast<size_t>(rank)].push_back(*stats);
    }
  });
  return run;
}

// Sums over ranks round otherwise than sums over micro-steps, 1e-6. From the second step on weights
// differ by as much, and of some elements the code: by 2^-3 of the element at most, which is one of
// 64 terms or more of a sum, of another sign as often.
void ExpectNear(const Ranks& many, const std::vector<StepStats>& one) {
  for (size_t step = 0; step < one.size(); ++step) {
    for (const std::vector<StepStats>& rank : many) {
      ASSERT_EQ(rank.size(), one.size());
      EXPECT_EQ(rank[step].grad_norm, many[0][step].grad_norm);
      EXPECT_EQ(rank[step].global_loss_sum, many[0][step].global_loss_sum);
      EXPECT_TRUE(rank[step].applied);
    }
    const double loss = many[0][step].global_loss_sum / one[step].global_loss_sum;
    EXPECT_NEAR(loss, 1.0, step == 0 ? 1e-6 : 2e-3) << "step " << step;
    EXPECT_NEAR(many[0][step].grad_norm / one[step].grad_norm, 1.0, step == 0 ? 1e-6 : 2e-2)
        << "step " << step;
  }
}

TEST(ShardedFp8Test, RanksComputeWhatOneComputes) {
  for (const plan::Fp8Recipe recipe : {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kRowwise,
                                       plan::Fp8Recipe::kBlockwise, plan::Fp8Recipe::kDelayed}) {
    for (const int64_t lora_rank : {0, 4}) {
      const Ranks one = Train(MakeCase(recipe, lora_rank, {}));
      for (const Mesh& mesh : {Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{1, 2, 2}, Mesh{1, 3, 3}}) {
        SCOPED_TRACE(testing::Message()
                     << plan::NameOf(recipe) << " rank " << lora_rank << ", " << mesh.replicate
                     << " x " << mesh.shard << ", ZeRO " << mesh.zero);
        ExpectNear(Train(MakeCase(recipe, lora_rank, mesh)), one[0]);
      }
    }
  }
}

// Of every rank: norms and losses of the steps. `finds`: every operand looks for its amax.
std::vector<std::vector<double>> BitsOf(const plan::Plan& plan, bool finds) {
  std::vector<std::vector<double>> bits(static_cast<size_t>(plan.world_size()));
  WithStates(plan, [&](State& state) {
    if (finds) {
      EXPECT_GT(ForgetKnownAmaxes(state), 0);
      state.graphs.Disable();
    }
    std::vector<double>& own = bits[static_cast<size_t>(state.rank)];
    for (int64_t step = 0; step < kSteps; ++step) {
      TrainStep train = MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}},
                                                  SmallConfig().vocab_size, 7));
      train.bins = PartOf(plan, train.bins, state.rank);
      const auto stats = RunTrainStep(state, train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      own.push_back(stats->grad_norm);
      own.push_back(stats->global_loss_sum);
    }
  });
  return bits;
}

// An idle rank too: five ranks have four bins.
TEST(ShardedFp8Test, AmaxesOfProducersKeepTheBits) {
  for (const Mesh& mesh :
       {Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{2, 2, 2}, Mesh{1, 3, 3}, Mesh{5, 1, 0}}) {
    SCOPED_TRACE(testing::Message()
                 << mesh.replicate << " x " << mesh.shard << ", ZeRO " << mesh.zero);
    const plan::Plan plan = MakeCase(plan::Fp8Recipe::kTensorwise, 0, mesh);
    EXPECT_EQ(BitsOf(plan, false), BitsOf(plan, true));
  }
}

TEST(ShardedFp8Test, ExpertsOfRanksComputeWhatThoseOfOneCompute) {
  for (const plan::Fp8Recipe recipe : {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kDelayed}) {
    for (const int64_t lora_rank : {0, 3}) {
      const Ranks one = Train(MakeMixture(recipe, lora_rank, {}, false));
      for (const auto& [mesh, codes] : {std::pair{Mesh{2, 1, 0}, false},
                                        {Mesh{1, 2, 2}, false},
                                        {Mesh{1, 3, 3}, false},
                                        {Mesh{1, 2, 3}, true}}) {
        SCOPED_TRACE(testing::Message()
                     << plan::NameOf(recipe) << " rank " << lora_rank << ", " << mesh.replicate
                     << " x " << mesh.shard << ", ZeRO " << mesh.zero);
        ExpectNear(Train(MakeMixture(recipe, lora_rank, mesh, codes)), one[0]);
      }
    }
  }
}

// Scales of attention are of a document's rows, which ranks do not cut.
TEST(ShardedFp8Test, AttentionOfRanksComputesWhatThatOfOneComputes) {
  for (const int64_t lora_rank : {0, 4}) {
    const auto plan_of = [lora_rank](const Mesh& mesh) {
      plan::Plan plan = MakeCase(plan::Fp8Recipe::kDelayed, lora_rank, mesh);
      plan.fp8.attention = true;
      Finish(&plan);
      return plan;
    };
    const Ranks one = Train(plan_of({}));
    for (const Mesh& mesh : {Mesh{2, 1, 0}, Mesh{1, 2, 2}, Mesh{1, 3, 3}}) {
      SCOPED_TRACE(testing::Message() << "rank " << lora_rank << ", " << mesh.replicate << " x "
                                      << mesh.shard << ", ZeRO " << mesh.zero);
      ExpectNear(Train(plan_of(mesh)), one[0]);
    }
  }
}

// Of delayed scales, whole on every rank.
std::vector<float> HistoryOf(const State& state) {
  return ReadFloats(state.buffers.fp8_history, kernels::DType::kFloat32,
                    plan::Fp8Operands(state.plan) * kernels::kFp8History);
}

BinBatch FirstBins() {
  return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}}, SmallConfig().vocab_size, 100);
}

// A micro-step is one bin and its weights are those of the start, so that what the first step
// observes has the same bits however its bins are dealt; the last rank of five has none.
TEST(ShardedFp8Test, RanksObserveWhatOneObserves) {
  std::vector<float> one;
  for (const Mesh& mesh :
       {Mesh{1, 1, 0}, Mesh{2, 1, 0}, Mesh{1, 2, 1}, Mesh{2, 2, 2}, Mesh{1, 3, 3}, Mesh{5, 1, 0}}) {
    const plan::Plan plan = MakeCase(plan::Fp8Recipe::kDelayed, 0, mesh);
    std::vector<std::vector<float>> histories(static_cast<size_t>(plan.world_size()));
    WithStates(plan, [&](State& state) {
      TrainStep step = MakeStep(0, FirstBins());
      step.bins = PartOf(plan, step.bins, state.rank);
      const auto stats = RunTrainStep(state, step);
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_TRUE(stats->applied);
      histories[static_cast<size_t>(state.rank)] = HistoryOf(state);
    });
    if (one.empty()) one = histories[0];
    for (const std::vector<float>& history : histories) {
      EXPECT_EQ(history, one) << mesh.replicate << " x " << mesh.shard << ", ZeRO " << mesh.zero;
    }
  }
  EXPECT_NE(one, std::vector<float>(one.size(), 0.0f));
}

// What is not finite on one rank skips the step on all, though its codes are.
TEST(ShardedFp8Test, AnInfiniteOperandOfOneRankSkipsTheStepOfAll) {
  const plan::Plan plan = MakeCase(plan::Fp8Recipe::kDelayed, 0, {2, 1, 0});
  WithStates(plan, [&](State& state) {
    for (int64_t step = 0; step < 3; ++step) {
      const std::vector<float> before = HistoryOf(state);
      if (step == 1 && state.rank == 1) {
        WriteFloats({HUGE_VALF}, state.buffers.fp8_observed + 5, kernels::DType::kFloat32);
      }
      TrainStep train = MakeStep(step, FirstBins());
      train.bins = PartOf(plan, train.bins, state.rank);
      const auto stats = RunTrainStep(state, train);
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_EQ(stats->applied, step != 1) << "rank " << state.rank;
      EXPECT_EQ(HistoryOf(state) == before, step == 1) << "rank " << state.rank;
    }
  });
}

// Trains steps [first, end) from `checkpoint` and saves into `directory`.
void TrainAndSave(const plan::Plan& plan, const std::string& checkpoint, int64_t first, int64_t end,
                  const std::string& directory) {
  WithEngines(plan, checkpoint, [&](int rank, Engine& engine) {
    for (int64_t step = first; step < end; ++step) {
      TrainStep train = MakeStep(step, FirstBins());
      train.bins = PartOf(plan, train.bins, rank);
      ASSERT_TRUE(engine.Train(train).ok());
    }
    ASSERT_TRUE(engine.Snapshot(end).ok());
    ASSERT_TRUE(engine.SaveShard(directory, end).ok());
  });
  SealCheckpoint(directory);
}

std::vector<float> SavedHistory(const std::string& directory) {
  const auto tensors = CheckpointTensors::Open(directory);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  const PiecedTensor* const history =
      tensors.ok() ? tensors->Find(plan::kFp8HistoryTensor) : nullptr;
  EXPECT_NE(history, nullptr);
  if (history == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(history->elements()));
  EXPECT_TRUE(CopyAsFloat(*history, values.data()).ok());
  return values;
}

TEST(ShardedFp8Test, AHistoryMovesBetweenMeshes) {
  const support::ScratchFolder first, second, third;
  const auto plan_of = [](const Mesh& mesh) {
    return MakeCase(plan::Fp8Recipe::kDelayed, 0, mesh);
  };
  TrainAndSave(plan_of({1, 3, 3}), "", 0, 2, first.path());
  TrainAndSave(plan_of({2, 1, 0}), first.path(), 2, 2, second.path());
  TrainAndSave(plan_of({1, 1, 0}), second.path(), 2, 2, third.path());
  const std::vector<float> history = SavedHistory(first.path());
  EXPECT_EQ(SavedHistory(second.path()), history);
  EXPECT_EQ(SavedHistory(third.path()), history);
  EXPECT_NE(history, std::vector<float>(history.size(), 0.0f));
}

}  // namespace
}  // namespace sharded_fp8_test
}  // namespace coxswain::engine
