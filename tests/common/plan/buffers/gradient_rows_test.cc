#include "common/plan/buffers/gradient_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "common/model/family.h"
#include "common/model/op_rows.h"

namespace coxswain::plan {
namespace gradient_rows_test {
namespace {

using model::Row;

model::ModelConfig Config(const std::string& architecture) {
  model::ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 64;
  config.hidden_size = 16;
  config.intermediate_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 8;
  config.layer_windows = {0, 0};
  config.latent = {.q_rank = 6, .kv_rank = 10, .nope = 4, .rope = 4, .value = 6};
  config.mixture = {.experts = 4, .chosen = 2, .width = 24, .dense_layers = {0}};
  return config;
}

std::vector<std::string> SlotsOf(const std::string& architecture) {
  std::vector<std::string> names;
  for (const GradientSlot& slot : GradientSlots(model::ArchitectureOf(Config(architecture)))) {
    names.push_back(slot.name + " " + std::to_string(slot.width));
  }
  return names;
}

TEST(GradientRowsTest, ABlockHasTheRowsThatItNeeds) {
  const std::vector<std::string> dense = {"dnorm 16", "dqkv 32", "datt 16", "dswiglu 32"};
  EXPECT_EQ(SlotsOf("LlamaForCausalLM"), dense);
  EXPECT_EQ(SlotsOf("Gemma3ForCausalLM"), dense);
  // A linear adds to the branch of another.
  EXPECT_EQ(
      SlotsOf("CohereForCausalLM"),
      (std::vector<std::string>{"dnorm 16", "dshared 16", "dqkv 32", "datt 16", "dswiglu 32"}));
  // One dense layer, one of experts: the rows of both.
  EXPECT_EQ(SlotsOf("Qwen3MoeForCausalLM"),
            (std::vector<std::string>{"dnorm 16", "dqkv 32", "datt 16", "dswiglu 32", "drouted 32",
                                      "dexperts 48", "dlogits 4", "dscores 4", "dweights 2"}));
  // The gate's inputs become their gradients: no row more.
  model::ModelConfig shared = Config("Qwen2MoeForCausalLM");
  shared.mixture.shared_width = 20;
  shared.mixture.shared_gate = true;
  EXPECT_EQ(GradientSlots(model::ArchitectureOf(shared)).size(), 9u);
  EXPECT_EQ(GradientSlots(model::ArchitectureOf(shared)).front().name, "dnorm");
  const model::Block block = model::ArchitectureOf(shared).blocks[1];
  const GradientRows rows = GradientRowsOf(block);
  for (const char* name : {"down", "shared_gate"}) {
    EXPECT_EQ(rows.of.at({1, name}), (Row{1, name})) << name;
  }
}

// Plays backward: the op that made a row must find there the gradient that the row's readers wrote.
void ExpectUndisturbed(const model::Block& block, const std::string& where) {
  const GradientRows rows = GradientRowsOf(block);
  std::map<Row, Row> holds;  // by memory: whose gradient it is
  for (auto op = block.ops.rbegin(); op != block.ops.rend(); ++op) {
    if (std::holds_alternative<model::AddOp>(*op)) continue;
    for (const model::Operand& out : model::Writes(*op)) {
      const auto gradient = rows.of.find(out.row);
      if (gradient == rows.of.end() || gradient->second.name == "dres") continue;
      const auto held = holds.find(gradient->second);
      if (held == holds.end()) continue;  // nobody reads the row
      EXPECT_EQ(held->second, out.row) << where << ": " << gradient->second.name;
    }
    for (const model::Operand& in : model::Reads(*op)) {
      const auto gradient = rows.of.find(in.row);
      if (gradient != rows.of.end()) holds[gradient->second] = in.row;
    }
  }
}

TEST(GradientRowsTest, NoGradientIsOverwrittenBeforeItIsRead) {
  for (const model::Family* family : model::Families()) {
    const std::string name(family->architecture);
    for (const bool gated : {false, true}) {
      model::ModelConfig config = Config(name);
      config.mixture.shared_width = 20;
      config.mixture.shared_gate = gated;
      const model::Architecture model = model::ArchitectureOf(config);
      for (const model::Block& block : model.blocks) ExpectUndisturbed(block, name);
    }
  }
}

}  // namespace
}  // namespace gradient_rows_test
}  // namespace coxswain::plan
