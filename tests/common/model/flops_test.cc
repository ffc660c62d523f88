#include "common/model/flops.h"

#include "common/model/parameter_table.h"
#include "common/plan/plan.h"
#include "gtest/gtest.h"

namespace coxswain::model {
namespace {

// heads x head_dim = 12 != hidden on purpose.
ModelConfig Small() {
  return {.architecture = "LlamaForCausalLM",
          .vocab_size = 100,
          .hidden_size = 10,
          .intermediate_size = 30,
          .num_layers = 2,
          .num_heads = 3,
          .num_kv_heads = 1,
          .head_dim = 4,
          .qkv_bias = true,
          .rope = {},
          .layer_windows = {0, 7}};
}

std::vector<model::Parameter> Trainable(std::vector<model::Parameter> table) {
  for (model::Parameter& parameter : table) parameter.group = 0;
  return table;
}

// Matrix elements of one block: q 12x10, k and v 4x10, o 10x12, gate and up 30x10, down 10x30.
constexpr double kBlock = 120 + 40 + 40 + 120 + 300 + 300 + 300;
constexpr double kHead = 100 * 10;
// 12 x heads x head_dim x (16 positions in layer 0, a window of 7 in layer 1).
constexpr double kAttention = 12.0 * 12 * (16 + 7);

TEST(FlopsTest, FullIsSixPerMatrixElementPlusAttention) {
  const auto flops = TrainingFlops(Small(), Trainable(BaseParameterTable(Small())), 16);
  EXPECT_EQ(flops.base, 6 * (2 * kBlock + kHead));
  EXPECT_EQ(flops.adapter, 0);
  EXPECT_EQ(flops.attention, kAttention);
  EXPECT_EQ(flops.total(), 6 * (2 * kBlock + kHead) + kAttention);
}

TEST(FlopsTest, FrozenBaseIsFourPlusSixPerAdapterElement) {
  auto table = WithLora(BaseParameterTable(Small()), Small(), {2, {"q_proj", "down_proj"}});
  ASSERT_TRUE(table.ok());
  for (model::Parameter& p : *table) p.group = IsAdapter(p) ? 0 : -1;
  const auto flops = TrainingFlops(Small(), *table, 16);
  EXPECT_EQ(flops.base, 4 * (2 * kBlock + kHead));
  // q: A 2x10, B 12x2; down: A 2x30, B 10x2.
  EXPECT_EQ(flops.adapter, 6.0 * 2 * (20 + 24 + 60 + 20));
  EXPECT_EQ(flops.attention, kAttention);
}

TEST(FlopsTest, MagnitudesCostNoProduct) {
  const auto plain = WithLora(BaseParameterTable(Small()), Small(), {2, {"q_proj"}});
  const auto dora = WithLora(BaseParameterTable(Small()), Small(), {2, {"q_proj"}, true});
  ASSERT_TRUE(plain.ok() && dora.ok());
  EXPECT_EQ(dora->size(), plain->size() + 2);
  EXPECT_EQ(TrainingFlops(Small(), *dora, 16).total(), TrainingFlops(Small(), *plain, 16).total());
}

TEST(FlopsTest, TiedHeadCountsOnce) {
  ModelConfig tied = Small();
  tied.tie_embeddings = true;
  EXPECT_EQ(TrainingFlops(tied, Trainable(BaseParameterTable(tied)), 16).base,
            6 * (2 * kBlock + kHead));
}

TEST(FlopsTest, WindowNeverExceedsTheSequence) {
  EXPECT_EQ(TrainingFlops(Small(), BaseParameterTable(Small()), 5).attention, 12.0 * 12 * (5 + 5));
}

TEST(FlopsTest, ForwardIsTwoPerElementAndAThirdOfAttention) {
  EXPECT_EQ(ForwardFlopsPerToken(Small(), BaseParameterTable(Small()), 16),
            2 * (2 * kBlock + kHead) + kAttention / 3);
}

TEST(FlopsTest, UtilisationIsNeededOverPossible) {
  EXPECT_DOUBLE_EQ(ModelFlopsUtilisation(3e9, 100'000, 600e12), 0.5);
  EXPECT_EQ(ModelFlopsUtilisation(3e9, 100'000, 0), 0);
}

}  // namespace
}  // namespace coxswain::model
