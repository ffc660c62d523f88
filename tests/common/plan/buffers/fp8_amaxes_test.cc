// Which operands in FP8 have their amax from the op that stores them.
#include "common/plan/buffers/fp8_amaxes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/plan/buffer_names.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/fusions/fused_ops.h"
#include "tests/common/plan/two_layers.h"

namespace coxswain::plan {
namespace fp8_amaxes_test {
namespace {

Plan TensorwisePlan() {
  Plan plan = TwoLayers();
  plan.fp8.recipe = Fp8Recipe::kTensorwise;
  plan.fp8.keeps_weights = true;
  return plan;
}

// The linears of a layer whose x has a known amax, and those whose gradient has, by name.
struct Known {
  std::vector<std::string> x, dy;
  bool operator==(const Known&) const = default;
};
Known KnownOf(const Plan& plan, int64_t layer) {
  const Fp8Amaxes amaxes = Fp8AmaxesOf(plan);
  Known known;
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t of_layer) {
    if (of_layer != layer) return;
    const AmaxNumbers read = amaxes.blocks[static_cast<size_t>(layer)].ReadBy(linear.id);
    if (read.value != kNoAmax) known.x.push_back(linear.name);
    if (read.gradient != kNoAmax) known.dy.push_back(linear.name);
  });
  return known;
}

const Known kAll = {{"qkv", "gate_up", "down"}, {"o", "gate_up", "down"}};

LinearPlace PlaceOf(const Plan& plan, const std::string& name) {
  LinearPlace place;
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    if (layer == 0 && linear.name == name) place = {layer, linear.id};
  });
  return place;
}

TEST(Fp8AmaxesTest, WhatNormsAndGatesStoreIsKnown) {
  Plan plan = TensorwisePlan();
  for (const bool fused : {false, true}) {
    if (fused) plan.fusions = ApplicableFusions(plan);
    EXPECT_EQ(KnownOf(plan, 0), kAll) << fused;
    EXPECT_EQ(KnownOf(plan, 1), kAll) << fused;
    const Fp8Amaxes amaxes = Fp8AmaxesOf(plan);
    EXPECT_EQ(amaxes.values, 6);
    EXPECT_EQ(amaxes.gradients, 6);
    EXPECT_EQ(amaxes.final_gradient, 6);  // the first after the values
  }
}

// Each number has one maker and is read.
TEST(Fp8AmaxesTest, EveryNumberIsMadeOnceAndRead) {
  const Plan plan = TensorwisePlan();
  const Fp8Amaxes amaxes = Fp8AmaxesOf(plan);
  std::vector<int64_t> made = {amaxes.final_gradient}, read;
  const auto add = [](const auto& numbers, std::vector<int64_t>* to) {
    for (const auto& [op, number] : numbers) {
      for (const int64_t n : {number.value, number.gradient}) {
        if (n != kNoAmax) to->push_back(n);
      }
    }
    std::sort(to->begin(), to->end());
  };
  for (const Fp8AmaxesOfBlock& block : amaxes.blocks) {
    add(block.made, &made);
    add(block.read, &read);
  }
  std::vector<int64_t> all;
  for (int64_t n = 0; n < amaxes.values + amaxes.gradients; ++n) all.push_back(n);
  EXPECT_EQ(made, all);
  EXPECT_EQ(read, all);
}

// The gate goes with a product that is not in FP8, which finds no amax.
TEST(Fp8AmaxesTest, FusedProductsFindNone) {
  Plan plan = TensorwisePlan();
  plan.fp8.excluded = {PlaceOf(plan, "gate_up")};
  EXPECT_EQ(KnownOf(plan, 0), (Known{{"qkv", "down"}, {"o", "down"}}));
  plan.fusions = ApplicableFusions(plan);
  EXPECT_EQ(KnownOf(plan, 0), (Known{{"qkv"}, {"o", "down"}}));
  plan = TensorwisePlan();
  plan.fp8.excluded = {PlaceOf(plan, "down")};
  EXPECT_EQ(KnownOf(plan, 0), (Known{{"qkv", "gate_up"}, {"o", "gate_up"}}));
  plan.fusions = ApplicableFusions(plan);
  EXPECT_EQ(KnownOf(plan, 0), (Known{{"qkv", "gate_up"}, {"o"}}));
}

TEST(Fp8AmaxesTest, OtherRecipesKnowNone) {
  for (const Fp8Recipe recipe :
       {Fp8Recipe::kNone, Fp8Recipe::kRowwise, Fp8Recipe::kBlockwise, Fp8Recipe::kDelayed}) {
    Plan plan = TensorwisePlan();
    plan.fp8.recipe = recipe;
    EXPECT_EQ(KnownOf(plan, 0), Known());
    EXPECT_TRUE(Fp8AmaxRows(plan).empty());
  }
}

TEST(Fp8AmaxesTest, AFloatEach) {
  Plan plan = TensorwisePlan();
  const std::vector<Buffer> rows = Fp8AmaxRows(plan);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, buffers::kFp8Amaxes);
  EXPECT_EQ(rows[0].bytes, 4 * 12);
  plan.groups.clear();  // trains nothing
  EXPECT_EQ(KnownOf(plan, 0), (Known{kAll.x, {}}));
  EXPECT_EQ(Fp8AmaxRows(plan)[0].bytes, 4 * 6);
}

// Weights of one scale whose codes are made at each reading, numbered behind what is stored.
TEST(Fp8AmaxesTest, WeightsThatAreReadRememberTheirs) {
  Plan plan = TensorwisePlan();
  plan.fp8.keeps_weights = false;
  const Fp8Amaxes amaxes = Fp8AmaxesOf(plan);
  EXPECT_EQ(amaxes.weights, 8);
  EXPECT_EQ(Fp8AmaxRows(plan)[0].bytes, 4 * (12 + 8));
  int64_t next = 12;
  VisitFp8Linears(plan, [&](const model::LinearOp& linear, int64_t layer) {
    EXPECT_EQ(amaxes.blocks[static_cast<size_t>(layer)].ReadBy(linear.id).weight, next++);
  });
  plan.fp8.recipe = Fp8Recipe::kDelayed;
  EXPECT_EQ(Fp8AmaxRows(plan)[0].bytes, 4 * 8);
  for (const Fp8Recipe recipe : {Fp8Recipe::kRowwise, Fp8Recipe::kBlockwise}) {
    plan.fp8.recipe = recipe;
    EXPECT_TRUE(Fp8AmaxRows(plan).empty());
  }
  plan.fp8.recipe = Fp8Recipe::kTensorwise;
  plan.fp8.gathers_codes = true;
  plan.zero = 3;
  EXPECT_EQ(Fp8AmaxesOf(plan).weights, 0);
}

}  // namespace
}  // namespace fp8_amaxes_test
}  // namespace coxswain::plan
