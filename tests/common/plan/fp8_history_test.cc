// The operands whose scales are delayed, and their history beside other state.
#include "common/plan/fp8_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/shard_map.h"
#include "common/plan/snapshot_map.h"
#include "tests/common/plan/two_layers.h"

namespace coxswain::plan {
namespace fp8_history_test {
namespace {

Plan DelayedPlan() {
  Plan plan = TwoLayers();
  plan.fp8.recipe = Fp8Recipe::kDelayed;
  return plan;
}

std::vector<int64_t> OperandsOfX(const Plan& plan) {
  std::vector<int64_t> operands;
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    operands.push_back(Fp8OperandOf(plan, linear, layer));
  });
  return operands;
}

TEST(Fp8HistoryPlanTest, NumbersTwoOperandsOfALinear) {
  Plan plan = DelayedPlan();
  EXPECT_EQ(Fp8Operands(plan), 16);
  EXPECT_EQ(Fp8GatheredOperands(plan), 16);
  EXPECT_EQ(OperandsOfX(plan), (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12, 14}));
  LinearPlace second;
  int64_t visited = 0;
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    if (visited++ == 1) second = {layer, linear.id};
  });
  plan.fp8.excluded = {second};
  EXPECT_EQ(Fp8Operands(plan), 14);
  EXPECT_EQ(Fp8GatheredOperands(plan), 16);
  EXPECT_EQ(OperandsOfX(plan), (std::vector<int64_t>{0, 2, 4, 6, 8, 10, 12}));
}

// The operands of experts come behind those of plain linears.
TEST(Fp8HistoryPlanTest, NumbersOperandsOfExpertsLast) {
  Plan plan = DelayedPlan();
  plan.model.architecture = "Qwen3MoeForCausalLM";
  plan.model.qk_norm = true;
  plan.model.mixture = {.experts = 4, .chosen = 2, .width = 16, .renormalise = true};
  plan.architecture = model::ArchitectureOf(plan.model);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  for (model::Parameter& p : plan.parameters) p.group = 0;
  const int64_t plain = Fp8Operands(plan);
  EXPECT_EQ(OperandsOfX(plan), (std::vector<int64_t>{0, 2, 4, 6}));
  EXPECT_EQ(plain, 8);
  plan.fp8.experts = true;
  EXPECT_EQ(Fp8Operands(plan), plain + 8);
  EXPECT_EQ(OperandsOfX(plan), (std::vector<int64_t>{0, 2, 4, 6}));
  std::vector<int64_t> operands;
  VisitFp8Experts(plan, [&](const model::GroupedLinearOp& experts, int64_t layer) {
    operands.push_back(Fp8OperandOf(plan, experts, layer));
  });
  EXPECT_EQ(operands, (std::vector<int64_t>{8, 10, 12, 14}));
}

TEST(Fp8HistoryPlanTest, OtherRecipesAndPlansThatTrainNothingHaveNone) {
  Plan plan = DelayedPlan();
  plan.fp8.recipe = Fp8Recipe::kTensorwise;
  EXPECT_EQ(Fp8Operands(plan), 0);
  EXPECT_TRUE(Fp8HistoryRows(plan).empty());
  plan = DelayedPlan();
  plan.groups.clear();
  EXPECT_EQ(Fp8Operands(plan), 0);
}

// Whole on every rank; what ranks observed lies behind one another.
TEST(Fp8HistoryPlanTest, RowsAndTheSnapshotHoldIt) {
  Plan plan = DelayedPlan();
  plan.replicate = 3;
  const std::vector<Buffer> rows = Fp8HistoryRows(plan);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "fp8.history");
  EXPECT_EQ(rows[0].bytes, 16 * 32 * 4);
  EXPECT_EQ(rows[1].bytes, 16 * 4);
  EXPECT_EQ(rows[2].bytes, 3 * 16 * 4);
  const SnapshotMap map{ShardMap(plan)};
  plan.fp8.recipe = Fp8Recipe::kTensorwise;
  const SnapshotMap without{ShardMap(plan)};
  EXPECT_EQ(map.fp8_history, without.bytes);
  EXPECT_EQ(map.bytes, without.bytes + 16 * 32 * 4);
}

}  // namespace
}  // namespace fp8_history_test
}  // namespace coxswain::plan
