// Ranks that gather codes of weights train with the bits of ranks that gather their values; but the
// norm's squares are added over other ranges. Invariant engine-5.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/fp8_gather.h"
#include "common/plan/fp8_linears.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/seal_checkpoint.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"
#include "tests/worker/engine/support/test_ranks.h"
#include "tests/worker/engine/support/test_state.h"
#include "worker/engine/make_state.h"
#include "worker/engine/step/step.h"
#include "worker/engine/warm_up.h"

namespace coxswain::engine {
namespace sharded_fp8_gather_test {
namespace {

// Every weight has another length than a rank's range, so that ranges cut weights, and with five
// ranks some hold nothing of a weight.
struct Case {
  plan::Fp8Recipe recipe = plan::Fp8Recipe::kTensorwise;
  int64_t lora_rank = 0;
  int32_t replicate = 1, shard = 3;
  int32_t weight_slots = 2;
  std::string recompute = "none";
  std::vector<plan::LinearPlace> excluded = {};
  std::string optimizer = "adamw";
  double max_grad_norm = 0;  // a clipped update has the norm's rounding
  bool codes = false;
};

model::ModelConfig Config() {
  model::ModelConfig config = SmallConfig();
  config.hidden_size = 80;
  config.head_dim = 16;
  config.intermediate_size = 144;
  return config;
}

plan::Plan PlanOf(const Case& of) {
  PlanOptions options;
  options.init = "random";
  options.lora_rank = of.lora_rank;
  options.sequence_len = 40;
  options.replicate = of.replicate;
  options.shard = of.shard;
  options.zero = of.shard > 1 ? 3 : 0;
  options.weight_slots = of.weight_slots;
  options.recompute = of.recompute;
  options.optimizer = of.optimizer;
  options.fp8.recipe = of.recipe;
  options.fp8.gathers_codes = of.codes;
  options.fp8.excluded = of.excluded;
  plan::Plan plan = MakePlan(Config(), options);
  plan.max_grad_norm = of.max_grad_norm;
  return plan;
}
Case AsCodes(Case of) {
  of.codes = true;
  return of;
}

// Micro-steps are accumulated, and in the last one some ranks have no bin.
TrainStep StepOf(const plan::Plan& plan, int64_t step, int rank) {
  TrainStep train =
      MakeStep(step, RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {1, 1, 20}, {39}, {7}, {13, 2}},
                                Config().vocab_size, 100 + static_cast<uint64_t>(step)));
  train.bins = PartOf(plan, train.bins, rank);
  return train;
}

// All that a rank says of steps [first, end) and of an evaluation behind each.
struct Said {
  std::vector<double> losses, norms;
};
void Train(const plan::Plan& plan, int rank, int64_t first, int64_t end, Engine& engine,
           Said* said) {
  for (int64_t step = first; step < end; ++step) {
    const TrainStep train = StepOf(plan, step, rank);
    const auto stats = engine.Train(train);
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_TRUE(stats->applied);
    const auto held_back = engine.Evaluate(train.bins, {});
    ASSERT_TRUE(held_back.ok()) << held_back.status();
    said->losses.insert(said->losses.end(),
                        {stats->loss_sum, stats->global_loss_sum, held_back->loss_sum});
    said->norms.push_back(stats->grad_norm);
  }
}

std::vector<Said> TrainAll(const Case& of, const std::string& from = "", int64_t first = 0,
                           int64_t end = 3, const std::string& save = "") {
  const plan::Plan plan = PlanOf(of);
  std::vector<Said> said(static_cast<size_t>(plan.world_size()));
  WithEngines(plan, from, [&](int rank, Engine& engine) {
    Train(plan, rank, first, end, engine, &said[static_cast<size_t>(rank)]);
    if (save.empty()) return;
    ASSERT_TRUE(engine.Snapshot(end).ok());
    ASSERT_TRUE(engine.SaveShard(save, end).ok());
  });
  if (!save.empty()) SealCheckpoint(save);
  return said;
}

// Squares of n float32 are exact doubles, and none is negative: in any order their sum is within
// (n - 1) 2^-53 of itself, and its root, rounded, within n 2^-54 + 2^-53. Two orders: at most
// twice.
double NormTolerance(const plan::Plan& plan) {
  double elements = 0;
  for (const model::Parameter& p : plan.parameters) {
    if (p.trainable()) elements += static_cast<double>(p.elements());
  }
  return (elements + 2) * std::ldexp(1.0, -53);
}

// Adapters lie in the same ranges however the base travels: their norm has the same bits.
void ExpectNormsNear(const Case& of, const std::vector<double>& codes,
                     const std::vector<double>& values) {
  ASSERT_EQ(codes.size(), values.size());
  const double tolerance = of.lora_rank > 0 ? 0.0 : NormTolerance(PlanOf(of));
  for (size_t step = 0; step < values.size(); ++step) {
    EXPECT_NEAR(codes[step] / values[step], 1.0, tolerance) << "step " << step;
  }
}

void ExpectSame(const Case& of, const std::vector<Said>& codes, const std::vector<Said>& values) {
  ASSERT_EQ(codes.size(), values.size());
  for (size_t rank = 0; rank < values.size(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    EXPECT_FALSE(values[rank].losses.empty());
    EXPECT_EQ(codes[rank].losses, values[rank].losses);
    EXPECT_EQ(codes[rank].norms, codes[0].norms);
    ExpectNormsNear(of, codes[rank].norms, values[rank].norms);
  }
}

void ExpectAsWithValues(const Case& values) {
  SCOPED_TRACE(testing::Message() << plan::NameOf(values.recipe) << ", LoRA rank "
                                  << values.lora_rank << ", " << values.replicate << " x "
                                  << values.shard << ", " << values.weight_slots << " slots");
  ExpectSame(values, TrainAll(AsCodes(values)), TrainAll(values));
}

TEST(ShardedFp8GatherTest, LossesHaveTheBitsOfValuesAndNormsAreEqualUpToRounding) {
  for (const plan::Fp8Recipe recipe : {plan::Fp8Recipe::kTensorwise, plan::Fp8Recipe::kDelayed}) {
    for (const int64_t lora_rank : {0, 4}) {
      for (const int32_t shard : {2, 3}) {
        ExpectAsWithValues({.recipe = recipe, .lora_rank = lora_rank, .shard = shard});
      }
    }
  }
}

// Of four ranks a range ends in the middle of a row of weight_codes.cc.
TEST(ShardedFp8GatherTest, ReplicasAndManyRanksDoSo) {
  ExpectAsWithValues({.replicate = 2, .shard = 2});
  ExpectAsWithValues({.shard = 4});
  ExpectAsWithValues({.shard = 5});
}

TEST(ShardedFp8GatherTest, ResidentBlocksAndRecomputedOnesDoSo) {
  ExpectAsWithValues({.weight_slots = 3});
  ExpectAsWithValues({.lora_rank = 4, .weight_slots = 3});
  ExpectAsWithValues({.recompute = "block"});
  ExpectAsWithValues({.optimizer = "adamw_8bit"});
}

// The factor of a clipped update is a float32 of the norm: the next one, where the norm's rounding
// crosses a border. What follows is that much off, as in sharded_fp8_test.cc.
TEST(ShardedFp8GatherTest, AClippedUpdateHasTheNormsRounding) {
  const Case values{.max_grad_norm = 0.25};
  const std::vector<Said> of_values = TrainAll(values), of_codes = TrainAll(AsCodes(values));
  EXPECT_GT(of_values[0].norms[0], values.max_grad_norm);
  EXPECT_EQ(of_codes[0].losses[1], of_values[0].losses[1]);  // before an update
  EXPECT_NEAR(of_codes[0].norms[0] / of_values[0].norms[0], 1.0, NormTolerance(PlanOf(values)));
  for (size_t i = 2; i < of_values[0].losses.size(); ++i) {
    EXPECT_NEAR(of_codes[0].losses[i] / of_values[0].losses[i], 1.0, 2e-3) << i;
  }
}

// The others of the block are gathered as values.
TEST(ShardedFp8GatherTest, ExcludedLinearsStayValues) {
  Case of;
  std::vector<plan::LinearPlace> all;
  plan::VisitFp8Linears(PlanOf(of), [&all](const model::LinearOp& linear, int64_t layer) {
    all.push_back({layer, linear.id});
  });
  of.excluded = {all[1], all[6]};
  std::sort(of.excluded.begin(), of.excluded.end());
  ExpectAsWithValues(of);
}

TEST(ShardedFp8GatherTest, ContinuesOnAnotherMeshAsWithValues) {
  for (const int64_t lora_rank : {0, 4}) {
    const support::ScratchFolder folder;
    const Case three{.recipe = plan::Fp8Recipe::kDelayed, .lora_rank = lora_rank};
    TrainAll(AsCodes(three), "", 0, 2, folder.path());
    for (const int32_t shard : {2, 3, 1}) {
      Case next = three;
      next.shard = shard;
      SCOPED_TRACE(testing::Message() << shard << " ranks");
      ExpectSame(next, TrainAll(AsCodes(next), folder.path(), 2, 4),
                 TrainAll(next, folder.path(), 2, 4));
    }
  }
}

// Answers read values, in the slots that steps fill with codes.
TEST(ShardedFp8GatherTest, AnswersBetweenStepsAreThoseOfValues) {
  const auto run = [](const Case& of, std::vector<Said>* said) {
    const plan::Plan plan = WithGeneration(PlanOf(of), 2, 30);
    std::vector<std::vector<int32_t>> texts;
    said->resize(static_cast<size_t>(plan.world_size()));
    WithEngines(plan, "", [&](int rank, Engine& engine) {
      for (int64_t step = 0; step < 3; ++step) {
        const auto stats = engine.Generate(
            {.prompts = {{5, 6, 7}, {9}}, .tokens = 8, .sampling = {.temperature = 0.7}});
        ASSERT_TRUE(stats.ok()) << stats.status();
        for (const GeneratedText& text : stats->texts) {
          if (rank == 0) texts.push_back(text.ids);
        }
        Train(plan, rank, step, step + 1, engine, &(*said)[static_cast<size_t>(rank)]);
      }
    });
    return texts;
  };
  for (const int64_t lora_rank : {0, 4}) {
    const Case values{.lora_rank = lora_rank, .shard = 2};
    std::vector<Said> of_values, of_codes;
    EXPECT_EQ(run(AsCodes(values), &of_codes), run(values, &of_values));
    ExpectSame(values, of_codes, of_values);
  }
}

// A rank's scale is that of the whole weight: the largest of all ranks' parts.
TEST(ShardedFp8GatherTest, RanksFindTheScalesOfWholeWeights) {
  const plan::Plan plan = PlanOf({.codes = true});
  std::vector<std::vector<float>> scales(3);
  WithStates(plan, [&](State& state) {
    const TrainStep step = StepOf(plan, 0, state.rank);
    ASSERT_TRUE(RunTrainStep(state, step).ok());
    const int64_t floats = plan::kFloatsOfScale * plan::CountCodedWeights(plan);
    scales[static_cast<size_t>(state.rank)] =
        ReadFloats(state.buffers.fp8_weight_scales, kernels::DType::kFloat32, floats);
  });
  EXPECT_EQ(scales[1], scales[0]);
  EXPECT_EQ(scales[2], scales[0]);
  for (size_t i = 0; i < scales[0].size(); i += plan::kFloatsOfScale) EXPECT_GT(scales[0][i], 0.0f);
}

// The unit that was last in its slot has codes of this rank in the parts of all.
TEST(ShardedFp8GatherTest, AWarmUpHasOwnCodesInThePartsOfOthers) {
  const plan::Plan plan = PlanOf({.codes = true});
  std::string doing;
  const auto made = MakeState(plan, /*rank=*/1, "", &doing);
  ASSERT_TRUE(made.ok()) << made.status();
  State& state = **made;
  WarmUp(state);
  int64_t looked_at = 0;
  for (size_t f = 0; f < state.layout.map.flats.size(); ++f) {
    const plan::Flat& flat = state.layout.map.flats[f];
    if (!flat.coded || flat.unit != plan.model.num_layers) continue;
    std::vector<uint8_t> codes(static_cast<size_t>(flat.elements));
    kernels::CopyMemory(codes.data(), state.buffers.flats[f].codes, flat.elements, nullptr);
    EXPECT_GT(*std::max_element(codes.begin(), codes.end()), 0);
    for (int64_t i = flat.owned; i < flat.elements; ++i) {
      ASSERT_EQ(codes[static_cast<size_t>(i)], codes[static_cast<size_t>(i % flat.owned)]) << i;
    }
    ++looked_at;
  }
  EXPECT_EQ(looked_at, 1);
}

int64_t BytesOf(const plan::Plan& plan, const std::string& name) {
  for (const plan::Buffer& row : plan.buffers) {
    if (row.name == name) return row.bytes;
  }
  return 0;
}

// Float32 weights of a block, of which all but norms and biases are in FP8. Two flats instead of
// one pad less than one flat's padding more in each of two slots, and codes end at 128 bytes.
TEST(ShardedFp8GatherTest, SlotsHoldAByteOfAWeightUnlessPromptsAreAnswered) {
  const Case of;
  const plan::Plan values = PlanOf(of), codes = PlanOf(AsCodes(of));
  const plan::GatheredBytes block = plan::GatheredBytesOf(codes);
  EXPECT_EQ(block.values, 4 * block.codes);
  const int64_t saved = BytesOf(values, "weight_slots") - BytesOf(codes, "weight_slots");
  const int64_t padding = 2 * (4 * of.shard * plan::kShardAlignment + 128);
  EXPECT_NEAR(static_cast<double>(saved), 2.0 * static_cast<double>(block.values - block.codes),
              static_cast<double>(padding));
  const int64_t beside =
      BytesOf(WithGeneration(codes, 2, 30), "weight_slots") - BytesOf(values, "weight_slots");
  EXPECT_GE(beside, 0);
  EXPECT_LE(beside, padding);
}

}  // namespace
}  // namespace sharded_fp8_gather_test
}  // namespace coxswain::engine
