// One case of the golden values that transformers and peft computed in float64.
// tests/fixtures/README.md says what each file holds.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_CASE_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/engine.h"

namespace coxswain::engine {

using Tensors = std::map<std::string, std::vector<float>>;

// The cases whose base is not quantised.
inline constexpr const char* kGoldenCases[] = {"qwen2_full",
                                               "llama_full",
                                               "llama31_rope_full",
                                               "llama_linear_full",
                                               "llama_yarn_full",
                                               "smollm3_full",
                                               "granite_full",
                                               "gemma_full",
                                               "gemma2_full",
                                               "gemma3_text_full",
                                               "olmo2_full",
                                               "glm4_full",
                                               "cohere_full",
                                               "cohere2_full",
                                               "starcoder2_full",
                                               "phi3_full",
                                               "phi3_longrope_short_full",
                                               "phi3_longrope_long_full",
                                               "phi4_mini_full",
                                               "ministral3_full",
                                               "mistral_full",
                                               "mistral_swa_full",
                                               "qwen3_full",
                                               "qwen2_lora",
                                               "qwen2_lora_plus",
                                               "llama_rslora",
                                               "llama_dora",
                                               "phi3_lora",
                                               "glm4_lora",
                                               "gemma3_text_lora",
                                               "cohere_lora",
                                               "starcoder2_lora",
                                               "llama_saved_lora",
                                               "qwen2_saved_lora",
                                               "llama_outer_lora",
                                               "qwen2_outer_lora"};

// Mixtures of experts.
inline constexpr const char* kExpertCases[] = {"moe/mixtral_aux_full",
                                               "moe/mixtral_attn_lora",
                                               "moe/mixtral_expert_lora",
                                               "moe/mixtral_router_lora",
                                               "moe/qwen3_moe_aux_full",
                                               "moe/qwen3_moe_nonorm_aux_full",
                                               "moe/qwen3_moe_attn_lora",
                                               "moe/qwen3_moe_expert_lora",
                                               "moe/qwen2_moe_aux_full",
                                               "moe/qwen2_moe_attn_lora",
                                               "moe/qwen2_moe_linear_lora",
                                               "moe/qwen2_moe_expert_lora",
                                               "moe/qwen2_moe_mixed_aux_full",
                                               "moe/qwen2_moe_window_aux_full",
                                               "moe/glm4_moe_full",
                                               "moe/glm4_moe_attn_lora",
                                               "moe/glm4_moe_expert_lora",
                                               "moe/gpt_oss_aux_full",
                                               "moe/gpt_oss_attn_lora",
                                               "moe/gpt_oss_expert_lora",
                                               "moe/gpt_oss_mxfp4_attn_lora",
                                               "moe/gpt_oss_mxfp4_expert_lora",
                                               "moe/deepseek_v3_full",
                                               "moe/deepseek_v3_attn_lora",
                                               "moe/deepseek_v3_expert_lora",
                                               "moe/deepseek_v3_yarn_full",
                                               "moe/deepseek_v3_qproj_full",
                                               "moe/deepseek_v3_fp8_full",
                                               "moe/deepseek_v3_fp8_attn_lora",
                                               "moe/deepseek_v3_fp8_expert_lora",
                                               "moe/glm4_moe_lite_full",
                                               "moe/glm4_moe_lite_attn_lora",
                                               "moe/glm4_moe_lite_expert_lora",
                                               "moe/glm4_moe_lite_linear_lora",
                                               "moe/glm4_moe_lite_types_full"};

struct GoldenStep {
  double loss = 0, grad_norm = 0, learning_rate = 0;
};

struct GoldenCase {
  std::string name;
  plan::Plan plan;
  BinBatch bins;  // one bin with all documents
  int64_t targets = 0;
  double loss = 0, grad_norm = 0;
  std::vector<GoldenStep> trajectory;
  // A router may flip: the steps behind those before it, and `final`, are not to be compared.
  bool flips = false;
  size_t steps_before_flip = 0;
  std::vector<float> logits;  // [T, V]
  Tensors gradients;
  Tensors initial, final;  // of trainable tensors
};

// Of a test's parameter: the case, and whether it runs with a cut head (CutHead of test_plan.h).
struct NamedCase {
  std::string name;
  bool cut_head = false;
};
// "cut_NAME": NAME with a cut head.
NamedCase CaseOf(const std::string& parameter);

// Throws std::runtime_error naming the file that is missing or broken.
GoldenCase LoadGoldenCase(const std::string& name);

// Every tensor of a safetensors file as float32.
Tensors ReadTensors(const std::string& path);

// |a - b|_2 / |b|_2.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

// Of the angle between a and b.
double Cosine(const std::vector<float>& a, const std::vector<float>& b);

// |end - want|_2 over the way |want - start|_2 of a training.
double ErrorOfTheWay(const std::vector<float>& end, const std::vector<float>& want,
                     const std::vector<float>& start);

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_GOLDEN_CASE_H_
