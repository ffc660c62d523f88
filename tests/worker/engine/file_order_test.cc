// A model whose file holds q, k and v of each kv head together trains as the one whose file holds
// them apart.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/files/safetensors/safetensors_writer.h"
#include "common/model/files/file_rows.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scratch_folder.h"
#include "tests/worker/engine/support/golden_case.h"
#include "tests/worker/engine/support/same_losses.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {
namespace file_order_test {
namespace {

// The values of the parameter in memory order, from the tensors of the other family.
std::vector<float> Values(const Tensors& llama, const model::Parameter& parameter) {
  const std::string layer = "model.layers." + std::to_string(parameter.layer) + ".";
  const auto at = [&](const std::string& name) { return llama.at(layer + name + ".weight"); };
  // Names of InternLM2, with those of Llama.
  const std::pair<const char*, const char*> kNames[] = {
      {"attention_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
      {"attention.wo", "self_attn.o_proj"},  {"feed_forward.w1", "mlp.gate_proj"},
      {"feed_forward.w3", "mlp.up_proj"},    {"feed_forward.w2", "mlp.down_proj"}};
  if (model::IsEmbedding(parameter)) return llama.at("model.embed_tokens.weight");
  if (model::IsHead(parameter)) return llama.at("lm_head.weight");
  if (parameter.layer < 0) return llama.at("model.norm.weight");
  for (const auto& [name, of_llama] : kNames) {
    if (parameter.name == layer + name + ".weight") return at(of_llama);
  }
  std::vector<float> qkv = at("self_attn.q_proj");
  for (const char* name : {"self_attn.k_proj", "self_attn.v_proj"}) {
    const std::vector<float> next = at(name);
    qkv.insert(qkv.end(), next.begin(), next.end());
  }
  return qkv;
}

TEST(FileOrderTest, ALlamaPermutedIntoOneTensorGivesTheSameBits) {
  const GoldenCase golden = LoadGoldenCase("llama_full");
  const support::ScratchFolder folder;
  nlohmann::json config =
      nlohmann::json::parse(std::ifstream(support::GoldenFolder("llama_full") + "/config.json"));
  config["architectures"] = {"InternLM2ForCausalLM"};
  config["bias"] = false;
  folder.Write("config.json", config.dump());
  PlanOptions options;
  options.model_path = folder.path();
  plan::Plan plan = MakePlan(options);
  std::vector<TensorSource> sources;
  for (const model::Parameter& parameter : plan.parameters) {
    std::vector<float> values = Values(golden.initial, parameter);
    model::ToFileOrder(model::FileRows(plan.architecture, parameter), parameter.cols, &values);
    std::vector<int64_t> shape = {parameter.rows};
    if (parameter.cols > 1) shape.push_back(parameter.cols);
    sources.push_back({parameter.name, ElementType::kF32, shape, [values](uint8_t* out) {
                         std::memcpy(out, values.data(), values.size() * sizeof(float));
                         return absl::OkStatus();
                       }});
  }
  ASSERT_TRUE(WriteSafetensors(folder.path() + "/model.safetensors", sources).ok());

  ExpectLossesOf(golden, plan);
}

}  // namespace
}  // namespace file_order_test
}  // namespace coxswain::engine
