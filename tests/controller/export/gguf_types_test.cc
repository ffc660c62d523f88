// Which type each matrix gets, against llama.cpp's own choice (tests/fixtures/gguf_blocks).
#include "controller/export/gguf_types.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace coxswain::exports {
namespace {

model::ModelConfig ModelOf(const nlohmann::json& facts) {
  model::ModelConfig model;
  model.architecture = facts["family"];
  model.num_layers = facts["layers"];
  model.num_heads = facts["heads"];
  model.num_kv_heads = facts["kv_heads"];
  model.mixture.experts = facts["experts"];
  model.tie_embeddings = facts["tied"];
  return model;
}

// "Q6_K*2 Q4_K*1"
std::vector<std::string> TypesOf(const std::string& runs) {
  std::vector<std::string> types;
  std::istringstream text(runs);
  for (std::string run; text >> run;) {
    const size_t star = run.find('*');
    types.insert(types.end(), std::stoul(run.substr(star + 1)), run.substr(0, star));
  }
  return types;
}

TEST(GgufTypesTest, AreThoseThatLlamaCppChooses) {
  std::ifstream file("tests/fixtures/gguf_blocks/types.json");
  const nlohmann::json cases = nlohmann::json::parse(file);
  EXPECT_EQ(cases.size(), 14u);
  for (const nlohmann::json& facts : cases) {
    const model::ModelConfig model = ModelOf(facts);
    for (const auto& [module, runs] : facts["types"].items()) {
      const std::vector<std::string> wanted = TypesOf(runs);
      const char* rows = module == "attn_output"          ? "attention"
                         : module.starts_with("ffn_down") ? "inner"
                                                          : "hidden";
      const bool outside = module == "output" || module == "token_embd";
      ASSERT_EQ(wanted.size(), outside ? 1u : static_cast<size_t>(model.num_layers));
      for (size_t layer = 0; layer < wanted.size(); ++layer) {
        const std::string name =
            (outside ? "" : "blk." + std::to_string(layer) + ".") + module + ".weight";
        const GgufType type =
            TypeOfGgufMatrix(GgufFileType::kQ4_K_M, model, name, facts[rows].get<int64_t>());
        EXPECT_EQ(GgufTypeName(type), wanted[layer])
            << model.architecture << " of " << model.num_layers << ": " << name;
      }
    }
  }
}

TEST(GgufTypesTest, OfOtherFilesAreOneTypeWhereRowsAreWholeBlocks) {
  model::ModelConfig model;
  model.architecture = "LlamaForCausalLM";
  const auto type = [&model](GgufFileType file, int64_t cols) {
    return TypeOfGgufMatrix(file, model, "output.weight", cols);
  };
  EXPECT_EQ(type(GgufFileType::kQ8_0, 96), GgufType::kQ8_0);
  EXPECT_EQ(type(GgufFileType::kQ8_0, 72), GgufType::kF16);
  EXPECT_EQ(type(GgufFileType::kBF16, 72), GgufType::kBF16);
}

TEST(GgufTypesTest, AreKnownByTheWordsOfTheJob) {
  EXPECT_EQ(GgufFileTypeOf("q4_k_m"), GgufFileType::kQ4_K_M);
  EXPECT_EQ(GgufFileTypeName(GgufFileType::kQ4_K_M), "Q4_K_M");
  EXPECT_EQ(static_cast<uint32_t>(GgufFileType::kQ4_K_M), 15u);
  EXPECT_FALSE(GgufFileTypeOf("q4_k").has_value());
}

}  // namespace
}  // namespace coxswain::exports
