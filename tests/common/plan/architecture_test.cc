// The blocks that travel in a plan: their bytes, and what is refused.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "common/model/family.h"
#include "common/model/op_fields.h"
#include "common/model/parameter_table.h"
#include "common/plan/checks/architecture_bytes.h"
#include "common/plan/checks/architecture_checks.h"
#include "common/plan/checks/plan_bytes.h"
#include "coxswain/v1/plan.pb.h"

namespace coxswain::plan {
namespace architecture_test {
namespace {

Plan PlanOf(const std::string& architecture) {
  Plan plan;
  model::ModelConfig& config = plan.model;
  config.architecture = architecture;
  config.vocab_size = 64;
  config.hidden_size = 16;
  config.intermediate_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.layer_windows = {0, 4};
  config.latent = {.q_rank = 6, .kv_rank = 10, .nope = 4, .rope = 4, .value = 6};
  config.qk_norm = true;
  config.mixture = {.experts = 4, .chosen = 2, .width = 24, .dense_layers = {0}};
  plan.architecture = model::ArchitectureOf(config);
  return plan;
}

TEST(ArchitectureTest, EveryFamilysBlocksFitTogetherAndTravel) {
  for (const model::Family* family : model::Families()) {
    const Plan plan = PlanOf(std::string(family->architecture));
    EXPECT_TRUE(CheckArchitecture(plan).ok())
        << family->architecture << ": " << CheckArchitecture(plan);
    v1::Architecture message;
    ArchitectureToProto(plan.architecture, &message);
    const auto back = ArchitectureFromProto(message);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, plan.architecture) << family->architecture;
  }
}

// Changes one field of any type.
template <typename T>
void Change(T& field) {
  if constexpr (std::is_same_v<T, bool>) {
    field = !field;
  } else if constexpr (std::is_enum_v<T>) {
    field = static_cast<T>(static_cast<uint32_t>(field) + 1);
  } else if constexpr (std::is_arithmetic_v<T>) {
    field += 1;
  } else if constexpr (std::is_same_v<T, std::string>) {
    field += "x";
  } else if constexpr (std::is_same_v<T, model::Row>) {
    field.name += "x";
  } else if constexpr (std::is_same_v<T, std::vector<model::LinearMember>>) {
    field.push_back({.weight = 3, .bias = 4, .rows = 5});
  } else {
    std::apply([](auto& first, auto&...) { Change(first); }, model::Fields(field));
  }
}

// Through the bytes, in place of the first op of a block.
model::PlainOp Travelled(const model::PlainOp& op) {
  model::Architecture model = PlanOf("LlamaForCausalLM").architecture;
  model.blocks[0].ops[0] = op;
  v1::Architecture message;
  ArchitectureToProto(model, &message);
  return ArchitectureFromProto(message)->blocks[0].ops[0];
}

template <size_t kField = 0, typename Op>
void ExpectFieldsTravel(const Op& op) {
  if constexpr (kField < std::tuple_size_v<decltype(model::Fields(op))>) {
    Op changed = op;
    Change(std::get<kField>(model::Fields(changed)));
    EXPECT_FALSE(changed == op) << "field " << kField;
    EXPECT_EQ(std::get<Op>(Travelled(changed)), changed) << "field " << kField;
    ExpectFieldsTravel<kField + 1>(op);
  }
}

template <size_t kKind = 0>
void ExpectKindsTravel() {
  if constexpr (kKind < std::variant_size_v<model::PlainOp>) {
    SCOPED_TRACE(kKind);
    ExpectFieldsTravel(std::variant_alternative_t<kKind, model::PlainOp>());
    ExpectKindsTravel<kKind + 1>();
  }
}

TEST(ArchitectureTest, EveryFieldOfEveryOpTravels) { ExpectKindsTravel(); }

void ExpectRefused(const Plan& plan, const std::string& part) {
  const absl::Status status = CheckArchitecture(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
}

template <typename Op>
Op& Find(Plan* plan, size_t layer) {
  for (model::PlainOp& op : plan->architecture.blocks[layer].ops) {
    if (auto* found = std::get_if<Op>(&op)) return *found;
  }
  throw std::runtime_error("the block has no such op");
}

TEST(ArchitectureTest, WhatDoesNotFitIsRefused) {
  const Plan good = PlanOf("Qwen3MoeForCausalLM");
  Plan plan = good;
  plan.architecture.blocks.pop_back();
  ExpectRefused(plan, "1 blocks, the model has 2");
  plan = good;
  Find<model::LinearOp>(&plan, 0).in.name = "nowhere";
  ExpectRefused(plan, "\"layer0.nowhere\", which no op before it writes");
  plan = good;
  Find<model::LinearOp>(&plan, 0).members[0].weight = 99;
  ExpectRefused(plan, "tensor 99");
  plan = good;
  Find<model::NormOp>(&plan, 1).width = 8;
  ExpectRefused(plan, "[1, 16, 1], the op takes [1, 8, 1]");
  plan = good;
  Find<model::AttentionOp>(&plan, 0).heads.width = 4;
  ExpectRefused(plan, "wide");
  plan = good;
  Find<model::DispatchOp>(&plan, 1).routed.route = 0;
  ExpectRefused(plan, "which no router before it is");
  plan = good;
  Find<model::RouteOp>(&plan, 1).chosen = 5;
  ExpectRefused(plan, "experts of a token is 5, expected 1 to 4");
  plan = good;
  Find<model::GroupedLinearOp>(&plan, 1).experts = 5;
  ExpectRefused(plan, "[4, 48, 16], the op takes [5, 48, 16]");
  plan = good;
  Find<model::RotateOp>(&plan, 0).id += 1;
  ExpectRefused(plan, "has number");
  plan = good;
  plan.architecture.blocks[1].ops.pop_back();
  ExpectRefused(plan, "does not write \"final.residual\"");
}

TEST(ArchitectureTest, AnOpOfAnotherBuildIsRefused) {
  v1::Architecture message;
  ArchitectureToProto(PlanOf("LlamaForCausalLM").architecture, &message);
  v1::Architecture other = message;
  other.mutable_blocks(0)->mutable_ops(0)->set_kind(99);
  EXPECT_NE(ArchitectureFromProto(other).status().ToString().find("kind 99"), std::string::npos);
  other = message;
  other.mutable_blocks(0)->mutable_ops(0)->add_numbers(1);
  EXPECT_NE(ArchitectureFromProto(other).status().ToString().find("other fields"),
            std::string::npos);
  other = message;
  other.mutable_blocks(0)->mutable_ops(0)->mutable_rows()->RemoveLast();
  EXPECT_FALSE(ArchitectureFromProto(other).ok());
}

}  // namespace
}  // namespace architecture_test
}  // namespace coxswain::plan
