#include "tests/worker/engine/support/rank_features.h"

#include <gtest/gtest.h>

#include <cmath>

#include "common/checkpoint/checkpoint_tensors.h"
#include "tests/worker/engine/support/golden_answers.h"
#include "tests/worker/engine/support/test_batch.h"

namespace coxswain::engine {
namespace {

constexpr int64_t kSteps = 4;

// Two bins a rank and one more: the last rank has three.
BinBatch Bins(int32_t ranks, int64_t vocab, uint64_t seed) {
  std::vector<std::vector<int32_t>> lengths;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    lengths.push_back({5, 1, 17, 9});
    lengths.push_back({31, 3});
  }
  lengths.push_back({40});
  return RandomBins(lengths, vocab, seed);
}

BinBatch BinsOfRank(const plan::Plan& plan, int rank, const BinBatch& all) {
  if (plan.world_size() == 1) return all;
  const auto first = static_cast<size_t>(2 * rank);
  const bool last = rank + 1 == plan.world_size();
  BinBatch part = Slice(all, first, last ? all.bin_ids.size() - first : 2);
  part.micro_steps = 3;  // of the last rank
  return part;
}

std::vector<float> Values(const PiecedTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(CopyAsFloat(tensor, values.data()).ok()) << tensor.name;
  return values;
}

void ExpectValuesNear(const PiecedTensor& got, const PiecedTensor& expected, double tolerance) {
  const std::vector<float> a = Values(got), b = Values(expected);
  ASSERT_EQ(a.size(), b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm));
}

// Codes of states. Those on a bound between two codes may differ: fewer than one in a hundred.
void ExpectCodesNear(const PiecedTensor& got, const PiecedTensor& expected) {
  const auto elements = static_cast<size_t>(expected.elements());
  ASSERT_EQ(got.elements(), expected.elements());
  std::vector<uint8_t> a(elements), b(elements);
  CopyBytes(got, a.data());
  CopyBytes(expected, b.data());
  size_t different = 0;
  for (size_t i = 0; i < elements; ++i) different += a[i] != b[i] ? 1 : 0;
  EXPECT_LT(100 * different, elements);
}

}  // namespace

std::vector<RankFeature> RankFeatures() {
  return {
      {"Full", 3, [](PlanOptions&) {}},
      {"BlocksRecomputed", 3, [](PlanOptions& options) { options.recompute = "block"; }},
      {"FfnRecomputed", 1, [](PlanOptions& options) { options.recompute = "ffn"; }},
      // A value on a bound between codes, one in 10^5 and update, differs by a step of its state.
      {"StatesOf8Bits", 1, [](PlanOptions& options) { options.optimizer = "adamw_8bit"; }, true,
       1e-3},
      {"Nf4", 1,
       [](PlanOptions& options) {
         options.lora_rank = 4;
         options.quantization = "nf4";
       }},
      {"Nf4Gathered", 3,
       [](PlanOptions& options) {
         options.lora_rank = 4;
         options.quantization = "nf4_double";
       }},
      {"Dora", 3,
       [](PlanOptions& options) {
         options.lora_rank = 4;
         options.dora = true;
       }},
      {"Dropout", 1,
       [](PlanOptions& options) {
         options.lora_rank = 4;
         options.dropout = 0.2;
       }},
      {"ModulesToSave", 2,
       [](PlanOptions& options) {
         options.lora_rank = 4;
         options.modules_to_save = {"embed_tokens", "lm_head", "norm"};
       }},
  };
}

plan::Plan FeaturePlan(const RankFeature& feature, int32_t world) {
  PlanOptions options;
  options.init = "random";
  options.sequence_len = 40;
  options.shard = world;
  options.zero = world > 1 ? feature.zero : 0;
  feature.set(options);
  return WithGeneration(MakePlan(feature.blocky ? BlockyConfig() : SmallConfig(), options), 2, 30);
}

RankRun TrainFeature(const plan::Plan& plan, int rank, int32_t ranks, Engine& engine,
                     const std::string& folder) {
  RankRun run;
  const int64_t vocab = plan.model.vocab_size;
  for (int64_t step = 0; step < kSteps; ++step) {
    const BinBatch all = Bins(ranks, vocab, 100 + static_cast<uint64_t>(step));
    TrainStep train = MakeStep(step, all);
    train.bins = BinsOfRank(plan, rank, all);
    const auto stats = engine.Train(train);
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (!stats.ok()) return run;
    EXPECT_TRUE(stats->applied);
  }
  const auto held_back = engine.Evaluate(BinsOfRank(plan, rank, Bins(ranks, vocab, 7)), {});
  EXPECT_TRUE(held_back.ok()) << held_back.status();
  if (held_back.ok()) run.held_back_loss = held_back->loss_sum;
  const auto answers = engine.Generate({.prompts = {{5, 6, 7}, {9}}, .tokens = 12});
  EXPECT_TRUE(answers.ok()) << answers.status();
  if (answers.ok()) {
    for (const GeneratedText& text : answers->texts) run.answers.push_back(text.ids);
  }
  EXPECT_TRUE(engine.Snapshot(kSteps).ok());
  EXPECT_TRUE(engine.SaveShard(folder, kSteps).ok());
  return run;
}

void ExpectTensorsNear(const std::string& many, const std::string& one, double tolerance) {
  const auto got = CheckpointTensors::Open(many), expected = CheckpointTensors::Open(one);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(got->tensors().size(), expected->tensors().size());
  ASSERT_FALSE(expected->tensors().empty());
  for (const auto& [name, tensor] : expected->tensors()) {
    const PiecedTensor* const other = got->Find(name);
    ASSERT_NE(other, nullptr) << name;
    SCOPED_TRACE(name);
    if (tensor.dtype == ElementType::kU8) {
      ExpectCodesNear(*other, tensor);
    } else {
      ExpectValuesNear(*other, tensor, tolerance);
    }
  }
}

}  // namespace coxswain::engine
