#include "tests/worker/engine/support/block_kinds.h"

#include "tests/worker/engine/support/test_plan.h"

namespace coxswain::engine {
namespace {

model::ModelConfig Base(const std::string& architecture) {
  model::ModelConfig config = SmallConfig();
  config.architecture = architecture;
  config.num_layers = 5;
  config.head_dim = 16;
  config.qkv_bias = false;
  config.layer_windows.assign(5, 0);
  return config;
}

// Norms on both sides, caps, two rotations, q and k normalised, GELU gates.
model::ModelConfig Sandwich() {
  model::ModelConfig config = Base("Gemma3ForCausalLM");
  config.qk_norm = config.norm_weights_from_one = true;
  config.activation = "gelu_tanh";
  config.embedding_scale = 3.0;
  config.attention_softcap = 4.0;
  config.logit_softcap = 5.0;
  config.layer_windows = {6, 6, 0, 6, 0};
  config.rope = {.type = "linear", .theta = 1e6, .factor = 8.0};
  config.window_rope = model::Rope{};
  return config;
}

model::ModelConfig Interleaved(const std::string& architecture) {
  model::ModelConfig config = Base(architecture);
  config.qkv_bias = true;
  config.rope.rotated = 8;
  config.rope.interleaved = true;
  return config;
}

model::ModelConfig PostNorm() {
  model::ModelConfig config = Base("Olmo2ForCausalLM");
  config.qk_norm = true;
  config.tie_embeddings = false;
  return config;
}

// Attention and MLP side by side on a LayerNorm.
model::ModelConfig Parallel() {
  model::ModelConfig config = Base("Cohere2ForCausalLM");
  config.rope.interleaved = true;
  config.logit_scale = 0.25;
  config.layer_windows = {6, 6, 0, 6, 0};
  config.unrotated_layers = {2, 4};
  return config;
}

model::ModelConfig PlainMlp() {
  model::ModelConfig config = Base("Starcoder2ForCausalLM");
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.activation = "gelu_tanh";
  return config;
}

model::ModelConfig GrowingQueries() {
  model::ModelConfig config = Base("Ministral3ForCausalLM");
  config.rope.query_scale_beta = 0.3;
  config.rope.original_max_position = 7;
  return config;
}

// Layers with experts and an MLP beside, between others of another width without.
model::ModelConfig SharedExperts() {
  model::ModelConfig config = Base("Qwen2MoeForCausalLM");
  config.qkv_bias = true;
  config.mixture = {.experts = 6,
                    .chosen = 2,
                    .width = 20,
                    .shared_width = 28,
                    .shared_gate = true,
                    .dense_layers = {1, 3}};
  return config;
}

// Experts in groups chosen by corrected scores, an MLP beside, dense layers of another width first.
model::ModelConfig GroupedExperts() {
  model::ModelConfig config = Base("Glm4MoeForCausalLM");
  config.qk_norm = true;
  config.rope.rotated = 8;
  config.mixture = {.experts = 8,
                    .chosen = 3,
                    .width = 20,
                    .shared_width = 40,
                    .score = "sigmoid",
                    .groups = 4,
                    .top_groups = 2,
                    .renormalise = true,
                    .scale = 1.5,
                    .dense_layers = {0}};
  return config;
}

// Sinks, biases everywhere, a clamped gate, windows in turns.
model::ModelConfig SinksAndBiases() {
  model::ModelConfig config = Base("GptOssForCausalLM");
  config.qkv_bias = config.output_bias = true;
  config.layer_windows = {6, 0, 6, 0, 6};
  config.mixture = {
      .experts = 6, .chosen = 2, .width = 20, .renormalise = true, .router_bias = true};
  return config;
}

// Heads from latents, wider keys than values; experts in groups behind a dense layer.
model::ModelConfig Latent(int64_t q_rank) {
  model::ModelConfig config = GroupedExperts();
  config.architecture = "DeepseekV3ForCausalLM";
  config.qk_norm = false;
  config.num_kv_heads = config.num_heads;
  config.latent = {.q_rank = q_rank, .kv_rank = 12, .nope = 8, .rope = 8, .value = 10};
  config.rope.interleaved = q_rank > 0;
  config.output_bias = q_rank == 0;
  return config;
}

}  // namespace

std::vector<BlockKind> BlockKinds() {
  return {{"PreNorm", Base("LlamaForCausalLM")},
          {"FusedTensors", Base("Phi3ForCausalLM")},
          {"Sandwich", Sandwich()},
          {"SandwichOfFusedTensors", Interleaved("Glm4ForCausalLM")},
          {"PostNorm", PostNorm()},
          {"Parallel", Parallel()},
          {"PlainMlp", PlainMlp()},
          {"GrowingQueries", GrowingQueries()},
          {"SharedExperts", SharedExperts()},
          {"GroupedExperts", GroupedExperts()},
          {"SinksAndBiases", SinksAndBiases()},
          {"LatentHeads", Latent(20)},
          {"LatentKeys", Latent(0)}};
}

std::vector<BlockKind> BlockKindsForFp8() {
  std::vector<BlockKind> kinds = BlockKinds();
  for (BlockKind& kind : kinds) {
    model::ModelConfig& config = kind.config;
    config.hidden_size = 64;
    config.intermediate_size = 144;
    if (config.mixture.shared_width > 0) config.mixture.shared_width = 32;
    if (!config.latent.has_value()) continue;
    config.latent->kv_rank = config.latent->value = 16;
    if (config.latent->q_rank > 0) config.latent->q_rank = 32;
  }
  return kinds;
}

}  // namespace coxswain::engine
