#include "common/model/parameter_table.h"
#include "common/model/read/read_model_config.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "common/files/safetensors/safetensors.h"
#include "common/plan/plan.h"
#include "gtest/gtest.h"
#include "tests/support/golden_folder.h"
#include "tests/support/half_billion.h"

namespace coxswain::model {
namespace {

namespace fs = std::filesystem;
using model::Parameter;
using support::HalfBillion;

fs::path Shared() {
  const char* shared = std::getenv("COXSWAIN_SHARED");
  return shared != nullptr ? shared : "../shared";
}

int64_t Count(const std::vector<Parameter>& table) {
  int64_t elements = 0;
  for (const Parameter& parameter : table) elements += parameter.elements();
  return elements;
}

// Last parts of names, in the order of the table.
std::vector<std::string> NamesOfLayer(const std::vector<Parameter>& table, int32_t layer,
                                      bool adapters) {
  std::vector<std::string> names;
  for (const Parameter& parameter : table) {
    if (parameter.layer != layer || IsAdapter(parameter) != adapters) continue;
    const size_t of_module =
        parameter.name.rfind('.', parameter.name.find(adapters ? ".lora_" : ".weight") - 1);
    const size_t of_bias = parameter.name.rfind('.', parameter.name.find(".bias") - 1);
    const bool bias = parameter.name.find(".bias") != std::string::npos;
    names.push_back(parameter.name.substr((bias ? of_bias : of_module) + 1));
  }
  return names;
}

TEST(ParameterTableTest, CountsTheHalfBillionModel) {
  EXPECT_EQ(Count(BaseParameterTable(HalfBillion())), 494032768);
}

// Sizes as the model cards state them.
TEST(ParameterTableTest, CountsPublishedModels) {
  const fs::path root = Shared() / "data/configs";
  if (!fs::exists(root)) GTEST_SKIP() << "needs ../shared/data/configs";
  for (const auto& [name, expected] :
       std::map<std::string, int64_t>{{"Qwen2.5-0.5B-Instruct", 494032768},
                                      {"Qwen2.5-1.5B", 1543714304},
                                      {"Qwen2.5-7B", 7615616512},
                                      {"Qwen3-0.6B", 596049920},
                                      {"Qwen3-8B", 8190735360},
                                      {"Llama-3.2-1B", 1235814400},
                                      {"Llama-3.1-8B", 8030261248},
                                      {"Meta-Llama-3-8B", 8030261248},
                                      {"Mistral-7B-v0.1", 7241732096},
                                      {"Yi-6B", 6061035520}}) {
    const auto config = ReadModelConfig((root / name).string());
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(Count(BaseParameterTable(*config)), expected) << name;
  }
}

// Invariant model-3.
TEST(ParameterTableTest, OrdersABlockAsTheEngineFusesIt) {
  ModelConfig config = HalfBillion();
  config.qk_norm = config.output_bias = config.mlp_bias = true;
  const std::vector<std::string> expected = {"input_layernorm.weight",
                                             "q_proj.weight",
                                             "k_proj.weight",
                                             "v_proj.weight",
                                             "q_proj.bias",
                                             "k_proj.bias",
                                             "v_proj.bias",
                                             "q_norm.weight",
                                             "k_norm.weight",
                                             "o_proj.weight",
                                             "o_proj.bias",
                                             "post_attention_layernorm.weight",
                                             "gate_proj.weight",
                                             "up_proj.weight",
                                             "down_proj.weight",
                                             "gate_proj.bias",
                                             "up_proj.bias",
                                             "down_proj.bias"};
  EXPECT_EQ(NamesOfLayer(BaseParameterTable(config), 3, /*adapters=*/false), expected);
}

TEST(ParameterTableTest, UnitsRiseAndTiedHeadHasNoEntry) {
  ModelConfig config = HalfBillion();
  const std::vector<Parameter> tied = BaseParameterTable(config);
  config.tie_embeddings = false;
  const std::vector<Parameter> untied = BaseParameterTable(config);
  EXPECT_EQ(untied.size(), tied.size() + 1);
  EXPECT_TRUE(IsHead(untied.back()));
  EXPECT_EQ(tied.back().name, "model.norm.weight");
  EXPECT_EQ(tied.front().unit, 0);
  EXPECT_EQ(tied.back().unit, 25);
  for (size_t i = 1; i < tied.size(); ++i) {
    EXPECT_GE(tied[i].unit, tied[i - 1].unit);
    EXPECT_FALSE(tied[i].trainable());
    if (tied[i].layer >= 0) {
      EXPECT_EQ(tied[i].unit, tied[i].layer + 1);
    }
  }
}

TEST(ParameterTableTest, LoraFollowsItsUnitWithSharedInputsAdjacent) {
  const ModelConfig config = HalfBillion();
  const auto table = WithLora(BaseParameterTable(config), config, {8, {"all-linear"}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(NamesOfLayer(*table, 5, /*adapters=*/true),
            (std::vector<std::string>{
                "q_proj.lora_A.weight", "k_proj.lora_A.weight", "v_proj.lora_A.weight",
                "q_proj.lora_B.weight", "k_proj.lora_B.weight", "v_proj.lora_B.weight",
                "o_proj.lora_A.weight", "o_proj.lora_B.weight", "gate_proj.lora_A.weight",
                "up_proj.lora_A.weight", "gate_proj.lora_B.weight", "up_proj.lora_B.weight",
                "down_proj.lora_A.weight", "down_proj.lora_B.weight"}));
  // Known count of peft for r = 8 on this model, target_modules all-linear.
  EXPECT_EQ(Count(*table) - Count(BaseParameterTable(config)), 4399104);
  for (size_t i = 1; i < table->size(); ++i) EXPECT_GE((*table)[i].unit, (*table)[i - 1].unit);
}

TEST(ParameterTableTest, LoraOfChosenModulesOnly) {
  const ModelConfig config = HalfBillion();
  const auto table = WithLora(BaseParameterTable(config), config, {4, {"v_proj", "q_proj"}});
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::string> names;
  for (const Parameter& parameter : *table) {
    if (parameter.layer == 0 && IsAdapter(parameter)) {
      names.push_back(parameter.name + " " + std::to_string(parameter.rows) + "x" +
                      std::to_string(parameter.cols));
    }
  }
  const std::string prefix = "base_model.model.model.layers.0.self_attn.";
  EXPECT_EQ(names,
            (std::vector<std::string>{
                prefix + "q_proj.lora_A.weight 4x896", prefix + "v_proj.lora_A.weight 4x896",
                prefix + "q_proj.lora_B.weight 896x4", prefix + "v_proj.lora_B.weight 128x4"}));
}

TEST(ParameterTableTest, MagnitudesFollowTheirB) {
  const ModelConfig config = HalfBillion();
  const auto table = WithLora(BaseParameterTable(config), config, {4, {"v_proj", "q_proj"}, true});
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::string> names;
  for (const Parameter& parameter : *table) {
    if (parameter.layer != 0 || !(IsLoraB(parameter) || IsMagnitude(parameter))) continue;
    names.push_back(parameter.name + " " + std::to_string(parameter.rows) + "x" +
                    std::to_string(parameter.cols));
  }
  const std::string prefix = "base_model.model.model.layers.0.self_attn.";
  EXPECT_EQ(names, (std::vector<std::string>{prefix + "q_proj.lora_B.weight 896x4",
                                             prefix + "v_proj.lora_B.weight 128x4",
                                             prefix + "q_proj.lora_magnitude_vector 896x1",
                                             prefix + "v_proj.lora_magnitude_vector 128x1"}));
}

TEST(ParameterTableTest, LoraOfHeadAndEmbeddingWhereTheyAreNamed) {
  const ModelConfig config = HalfBillion();
  const auto table = WithLora(BaseParameterTable(config), config, {4, {"embed_tokens", "lm_head"}});
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<std::string> names;
  for (const Parameter& parameter : *table) {
    if (!IsAdapter(parameter)) continue;
    names.push_back(parameter.name + " " + std::to_string(parameter.rows) + "x" +
                    std::to_string(parameter.cols));
    EXPECT_EQ(parameter.layer, -1);
  }
  const std::string prefix = "base_model.model.";
  EXPECT_EQ(names,
            (std::vector<std::string>{prefix + "model.embed_tokens.lora_embedding_A 151936x4",
                                      prefix + "model.embed_tokens.lora_embedding_B 896x4",
                                      prefix + "lm_head.lora_A.weight 4x896",
                                      prefix + "lm_head.lora_B.weight 151936x4"}));
  EXPECT_EQ(WithLora(BaseParameterTable(config), config, {4, {"lm_head"}, true}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(ParameterTableTest, LoraRefusesUnknownModulesListingTheKnown) {
  const ModelConfig config = HalfBillion();
  const auto refuse = [&](const std::vector<std::string>& targets, int64_t rank) {
    return WithLora(BaseParameterTable(config), config, {rank, targets}).status();
  };
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{"q_prj"}, {"head"}, {"q_proj", "all-linear"}, {}}) {
    EXPECT_EQ(refuse(targets, 8).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refuse(targets, 8).ToString().find("gate_proj"), std::string::npos);
  }
  EXPECT_NE(refuse({"q_prj"}, 8).ToString().find("\"q_prj\""), std::string::npos);
  EXPECT_EQ(refuse({"q_proj"}, 0).code(), absl::StatusCode::kInvalidArgument);
}

// Name -> shape of a table; vectors have one extent.
std::map<std::string, std::vector<int64_t>> Shapes(const std::vector<Parameter>& table,
                                                   bool adapter) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Parameter& p : table) {
    if (IsAdapter(p) != adapter) continue;
    const bool matrix = p.cols != 1;
    shapes[p.name] = matrix ? std::vector<int64_t>{p.rows, p.cols} : std::vector<int64_t>{p.rows};
  }
  return shapes;
}

std::map<std::string, std::vector<int64_t>> Shapes(const fs::path& path) {
  const auto file = SafetensorsFile::Open(path.string());
  EXPECT_TRUE(file.ok()) << file.status();
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const TensorInfo& tensor : (*file)->tensors()) shapes[tensor.name] = tensor.shape;
  return shapes;
}

// Invariant model-4. Names and shapes are exactly those that transformers and peft write.
TEST(ParameterTableTest, EqualsFilesOfTransformersAndPeft) {
  for (const char* name : {"qwen2_full", "llama_full", "llama31_rope_full", "mistral_full",
                           "mistral_swa_full", "qwen3_full", "qwen2_lora", "llama_rslora"}) {
    const fs::path folder = support::GoldenFolder(name);
    const auto config = ReadModelConfig(folder.string());
    ASSERT_TRUE(config.ok()) << config.status();
    const std::vector<Parameter> base = BaseParameterTable(*config);
    EXPECT_EQ(Shapes(base, false), Shapes(folder / "model.safetensors")) << name;
    if (!fs::exists(folder / "adapter")) continue;
    const auto adapter = Shapes(folder / "adapter/adapter_model.safetensors");
    const int64_t rank = adapter.begin()->second[0];  // of a lora_A
    const auto table = WithLora(base, *config, {rank, {"all-linear"}});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(Shapes(*table, true), adapter) << name;
  }
}

}  // namespace
}  // namespace coxswain::model
