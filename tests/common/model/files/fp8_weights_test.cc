#include "common/model/files/fp8_weights.h"

#include <gtest/gtest.h>

#include <string>

#include "common/model/family.h"
#include "common/model/parameter_table.h"

namespace coxswain::model {
namespace fp8_weights_test {
namespace {

// 3 layers; every width is a multiple of 128.
ModelConfig Even() {
  return {.architecture = "Qwen2ForCausalLM",
          .vocab_size = 256,
          .hidden_size = 128,
          .intermediate_size = 256,
          .num_layers = 3,
          .num_heads = 2,
          .num_kv_heads = 2,
          .head_dim = 64,
          .tie_embeddings = true,
          .qkv_bias = true,
          .rope = {},
          .layer_windows = {0, 0, 0}};
}

// Modules of block 1 in FP8, in memory order.
std::string InBlockOne(const ModelConfig& config) {
  const std::vector<Parameter> table = BaseParameterTable(config);
  const std::vector<bool> in_fp8 = WeightsInFp8(table);
  std::string names;
  for (size_t i = 0; i < table.size(); ++i) {
    if (!in_fp8[i]) continue;
    EXPECT_TRUE(table[i].name.ends_with("_proj.weight")) << table[i].name;
    if (table[i].layer != 1) continue;
    const std::string module = table[i].name.substr(0, table[i].name.rfind('.'));
    names += module.substr(module.rfind('.') + 1) + " ";
  }
  return names;
}

TEST(Fp8WeightsTest, AreTheLinearsOfBlocks) {
  EXPECT_EQ(InBlockOne(Even()), "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj ");
}

TEST(Fp8WeightsTest, AWidthThatIsNoMultipleOf128StaysWithWhatIsOneLinearWithIt) {
  ModelConfig config = Even();
  config.num_kv_heads = 1;  // k and v have 64 rows, q has 128
  EXPECT_EQ(InBlockOne(config), "o_proj gate_proj up_proj down_proj ");
  config.intermediate_size = 192;
  EXPECT_EQ(InBlockOne(config), "o_proj ");
}

TEST(Fp8WeightsTest, AModelOfWhichNoneFitsIsRefused) {
  EXPECT_TRUE(CheckFp8Weights(BaseParameterTable(Even())).ok());
  ModelConfig config = Even();
  config.hidden_size = 192;
  const absl::Status status = CheckFp8Weights(BaseParameterTable(config));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "no linear of a block has widths that are multiples of 128: "
            "\"model.layers.0.self_attn.q_proj.weight\" is [128, 192]");
}

TEST(Fp8WeightsTest, ExpertsAreRefusedByName) {
  ModelConfig config = Even();
  config.architecture = "MixtralForCausalLM";
  config.qkv_bias = false;
  config.mixture = {.experts = 4, .chosen = 2, .width = 128, .renormalise = true};
  const absl::Status status = CheckFp8Weights(BaseParameterTable(config));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("experts.gate_up_proj\" is of experts"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace fp8_weights_test
}  // namespace coxswain::model
