// Small models with experts, and what can be trained of them.
#ifndef COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_MIXTURE_CASES_H_
#define COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_MIXTURE_CASES_H_

#include <string>
#include <vector>

#include "tests/worker/engine/support/block_kinds.h"
#include "tests/worker/engine/support/test_batch.h"
#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {

struct MixtureCase {
  std::string name;
  model::ModelConfig config;  // five blocks
  PlanOptions options;
};

// Those whose numbers must be those of "none".
inline const std::vector<std::string>& LevelsOfMixtures() {
  static const std::vector<std::string> levels = {"norm_swiglu", "expert_out", "ffn", "block"};
  return levels;
}

// Qwen3-MoE, every block with experts; GLM-4.5, an MLP beside them and a dense block first;
// gpt-oss, biases of experts.
inline std::vector<BlockKind> MixtureKinds() {
  std::vector<BlockKind> kinds;
  for (BlockKind& kind : BlockKinds()) {
    if (kind.name == "SharedExperts") {
      kind.name = "Qwen3Moe";
      kind.config.architecture = "Qwen3MoeForCausalLM";
      kind.config.qkv_bias = false;
      kind.config.qk_norm = true;
      kind.config.mixture = {.experts = 6, .chosen = 2, .width = 20, .renormalise = true};
    } else if (kind.name == "GroupedExperts") {
      kind.name = "Glm4Moe";
    } else if (kind.name == "SinksAndBiases") {
      kind.name = "GptOss";
    } else {
      continue;
    }
    kind.config.mixture.width = 24;  // whole vectors of bfloat16
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

// Each in full, with adapters of all linears and experts, and with those over NF4; of Qwen3-MoE
// with adapters of experts alone and of attention alone, too.
inline std::vector<MixtureCase> MixtureCases() {
  const std::vector<std::string> stacks = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  std::vector<MixtureCase> cases;
  for (const BlockKind& kind : MixtureKinds()) {
    PlanOptions options;
    options.init = "random";
    options.sequence_len = 40;
    options.micro_batch_bins = 2;
    options.head_chunk = 24;
    cases.push_back({kind.name + "Full", kind.config, options});
    options.lora_rank = 3;
    options.lora_parameters = stacks;
    cases.push_back({kind.name + "LoraOfAll", kind.config, options});
    options.quantization = "nf4";
    cases.push_back({kind.name + "Nf4", kind.config, options});
    if (kind.name != "Qwen3Moe") continue;
    options.quantization.clear();
    options.lora_targets.clear();
    cases.push_back({kind.name + "LoraOfExperts", kind.config, options});
    options.lora_targets = {"q_proj", "o_proj"};
    options.lora_parameters.clear();
    cases.push_back({kind.name + "LoraOfAttention", kind.config, options});
  }
  return cases;
}

inline BinBatch MixtureBins(int64_t step) {
  return RandomBins({{5, 1, 17, 9}, {31, 3}, {40}, {13, 13, 13}}, SmallConfig().vocab_size,
                    100 + static_cast<uint64_t>(step));
}

}  // namespace coxswain::engine

#endif  // COXSWAIN_TESTS_WORKER_ENGINE_SUPPORT_MIXTURE_CASES_H_
