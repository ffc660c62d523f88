// Which weights ranks gather as codes, and what that takes.
#include "common/plan/fp8_gather.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/buffers/fp8_rows.h"
#include "common/plan/fp8_linears.h"
#include "tests/common/plan/two_layers.h"

namespace coxswain::plan {
namespace fp8_gather_test {
namespace {

// On three ranks, with codes gathered.
Plan GatheringPlan() {
  Plan plan = TwoLayers();
  plan.shard = 3;
  plan.zero = 3;
  plan.fp8.recipe = Fp8Recipe::kTensorwise;
  plan.fp8.gathers_codes = true;
  return plan;
}

constexpr int64_t kOfBlock = (32 + 16 + 16) * 32 + 32 * 32 + 2 * 48 * 32 + 32 * 48;

TEST(Fp8GatherTest, WeightsInFp8AreAFlatOfTheBlock) {
  Plan plan = GatheringPlan();
  const ShardMap map(plan);
  std::vector<int64_t> elements(4);
  for (const Flat& flat : map.flats) {
    for (const size_t i : flat.parameters) {
      const model::Parameter& p = plan.parameters[i];
      EXPECT_EQ(flat.coded, p.layer >= 0 && p.cols > 1) << p.name;
      if (flat.coded) elements[static_cast<size_t>(flat.unit)] += p.elements();
    }
  }
  EXPECT_EQ(elements, (std::vector<int64_t>{0, kOfBlock, kOfBlock, 0}));
}

// Of values the map is that of a plan without FP8.
TEST(Fp8GatherTest, GatheredValuesLieAsWithoutFp8) {
  Plan plan = GatheringPlan();
  plan.fp8.gathers_codes = false;
  const ShardMap values(plan);
  plan.fp8 = {};
  const ShardMap plain(plan);
  ASSERT_EQ(values.flats.size(), plain.flats.size());
  for (size_t f = 0; f < plain.flats.size(); ++f) {
    EXPECT_FALSE(values.flats[f].coded);
    EXPECT_EQ(values.flats[f].parameters, plain.flats[f].parameters);
    EXPECT_EQ(values.flats[f].owned, plain.flats[f].owned);
  }
  EXPECT_EQ(values.weight_slot, plain.weight_slot);
}

TEST(Fp8GatherTest, PacksAreOneWeightWithoutAGap) {
  const Plan plan = GatheringPlan();
  const ShardMap map(plan);
  const std::vector<CodedWeight> weights = CodedWeights(plan, map);
  ASSERT_EQ(static_cast<int64_t>(weights.size()), CountCodedWeights(plan));
  ASSERT_EQ(weights.size(), 8u);
  EXPECT_EQ(weights[0].elements.count(), (32 + 16 + 16) * 32);
  for (size_t w = 0; w < weights.size(); ++w) {
    EXPECT_EQ(weights[w].number, static_cast<int64_t>(w));
    EXPECT_TRUE(weights[w].trained);
    EXPECT_TRUE(map.flats[weights[w].flat].coded);
    EXPECT_EQ(weights[w].elements.begin % kShardAlignment, 0);
  }
  EXPECT_EQ(GatheredAmaxes(plan), 8);
}

TEST(Fp8GatherTest, NoneWithoutZero3OrTheKey) {
  const auto count = [](Plan plan) { return CodedWeights(plan, ShardMap(plan)).size(); };
  Plan plan = GatheringPlan();
  plan.zero = 2;
  EXPECT_EQ(count(plan), 0u);
  EXPECT_TRUE(CodedWeightRows(plan).empty());
  plan = GatheringPlan();
  plan.fp8.gathers_codes = false;
  EXPECT_EQ(count(plan), 0u);
}

// A block's elements are a multiple of what flats are padded to, so that two flats take as much as
// one.
TEST(Fp8GatherTest, ASlotHoldsAByteOfAWeightUnlessPromptsAreAnswered) {
  Plan plan = GatheringPlan();
  static_assert(kOfBlock % (3 * kShardAlignment) == 0);
  const int64_t codes = ShardMap(plan).weight_slot;
  const GatheredBytes bytes = GatheredBytesOf(plan);
  plan.generation = {.sequences = 1, .length = 8};
  const int64_t answers = ShardMap(plan).weight_slot;
  plan.generation = {};
  plan.fp8.gathers_codes = false;
  EXPECT_EQ(ShardMap(plan).weight_slot, answers);
  EXPECT_EQ(bytes.codes, kOfBlock);
  EXPECT_EQ(bytes.values, 4 * bytes.codes);
  EXPECT_NEAR(static_cast<double>(answers - codes), static_cast<double>(3 * bytes.codes), 128);
}

// Room for turned codes is there when something is trained.
TEST(Fp8GatherTest, RowsAreThoseOfWeightsAndOfTurnedCodes) {
  Plan plan = GatheringPlan();
  const auto bytes = [&plan](const std::string& name) {
    for (const Buffer& row : Fp8Rows(plan, 40)) {
      if (row.name == name) return row.bytes;
    }
    return int64_t{0};
  };
  EXPECT_EQ(bytes("fp8.weight_amaxes"), 4 * (3 + 1) * 8);
  EXPECT_EQ(bytes("fp8.weight_scales"), 16 * (8 + 1));
  EXPECT_EQ(bytes("fp8.constants"), 16);
  const int64_t turned = bytes("fp8.weight");
  EXPECT_GE(turned, 2 * 48 * 32);
  plan.groups.clear();
  EXPECT_EQ(bytes("fp8.weight"), 0);
}

}  // namespace
}  // namespace fp8_gather_test
}  // namespace coxswain::plan
