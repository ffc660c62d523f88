// The routers of a plan, and what is refused of the rate at which their corrections move.
#include "common/plan/routers.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/shard_map.h"
#include "common/plan/snapshot_map.h"

namespace coxswain::plan {
namespace routers_test {
namespace {

Plan MixturePlan(const std::string& architecture, const std::string& score) {
  Plan plan;
  model::ModelConfig& config = plan.model;
  config.architecture = architecture;
  config.vocab_size = 64;
  config.hidden_size = 16;
  config.intermediate_size = 32;
  config.num_layers = 4;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.layer_windows = {0, 0, 0, 0};
  config.qk_norm = true;
  config.mixture = {.experts = 6, .chosen = 2, .width = 24, .score = score, .dense_layers = {0, 2}};
  plan.architecture = model::ArchitectureOf(config);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  for (model::Parameter& p : plan.parameters) p.group = model::IsBuffer(p) ? model::kFrozen : 0;
  plan.groups = {{.name = "weights", .lr_scale = 1.0}};
  return plan;
}

TEST(RoutersTest, LieBehindOneAnotherAndTheLossesBehindThem) {
  const std::vector<Router> routers = RoutersOf(MixturePlan("Glm4MoeForCausalLM", "sigmoid"));
  ASSERT_EQ(routers.size(), 2u);
  EXPECT_EQ(routers[0].layer, 1);
  EXPECT_EQ(routers[1].layer, 3);
  EXPECT_EQ(routers[0].use, 0);
  EXPECT_EQ(routers[1].use, 8);
  EXPECT_EQ(routers[0].experts, 6);
  EXPECT_EQ(routers[0].chosen, 2);
  EXPECT_EQ(routers[1].moved, -1);
  EXPECT_EQ(RouterUseDoubles(MixturePlan("Glm4MoeForCausalLM", "sigmoid")), 18);
  EXPECT_EQ(RouterUseDoubles(Plan()), 0);
}

TEST(RoutersTest, WhatMovesIsKeptWholeBesideTheFlatsAndInTheSnapshot) {
  Plan plan = MixturePlan("Glm4MoeForCausalLM", "sigmoid");
  const ShardMap still(plan);
  EXPECT_EQ(still.corrections, 0);
  plan.router_bias_rate = 0.001;
  const ShardMap map(plan);
  EXPECT_EQ(map.corrections, 2 * 6 * 4);
  int64_t next = 0;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const bool moves = model::IsBuffer(plan.parameters[i]);
    EXPECT_EQ(IsMovedCorrection(plan, plan.parameters[i]), moves);
    EXPECT_EQ(map.places[i].correction, moves ? next : -1) << plan.parameters[i].name;
    if (moves) next += 6;
  }
  EXPECT_EQ(RoutersOf(plan)[1].moved, 6);
  EXPECT_EQ(SnapshotMap(map).bytes, SnapshotMap(still).bytes + 48);
  EXPECT_EQ(SnapshotMap(map).corrections, SnapshotMap(still).bytes);
}

TEST(RoutersTest, ARateNeedsCorrections) {
  for (const auto& [architecture, score, refused] :
       {std::tuple{"Glm4MoeForCausalLM", "sigmoid", ""},
        std::tuple{"Qwen3MoeForCausalLM", "softmax", "router of layer 1 has no correction"},
        std::tuple{"LlamaForCausalLM", "softmax", "the model has no router"}}) {
    Plan plan = MixturePlan(architecture, score);
    EXPECT_TRUE(CheckRouters(plan).ok()) << architecture;
    plan.router_bias_rate = 0.001;
    const absl::Status status = CheckRouters(plan);
    EXPECT_EQ(status.ok(), std::string(refused).empty()) << status;
    EXPECT_NE(status.ToString().find(refused), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace routers_test
}  // namespace coxswain::plan
