// Llama, and what differs from it in names or in layers that do not rotate.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {

// Source: transformers modeling_llama.

namespace {

void ReadLlama(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

}  // namespace

const Family kLlama = {.architecture = "LlamaForCausalLM",
                       .score_class = "LlamaForSequenceClassification",
                       .model_type = "llama",
                       .checkpoints = "Llama 2, Llama 3.0 to 3.3, Yi, SmolLM 1 and 2, TinyLlama",
                       .read = &ReadLlama,
                       .harmless = {"pretraining_tp", "sliding_window", "use_sliding_window"},
                       .gguf = {.architecture = "llama",
                                .names = PairedGgufNames(),
                                .settings = &LlamaGgufSettings,
                                .llama3_rope = true,
                                .biases = true}};

// Llama with layers that do not rotate. Source: transformers modeling_smollm3.

namespace {

// `no_rope_layers` holds 1 for a layer that rotates; without it each fourth does not.
void ReadUnrotated(ConfigKeys& keys, ModelConfig* config) {
  const int64_t interval = keys.Int("no_rope_layer_interval", 4);
  const nlohmann::json& rotates = keys["no_rope_layers"];
  if (!rotates.is_null() &&
      (!rotates.is_array() || rotates.size() < static_cast<size_t>(config->num_layers))) {
    keys.Fail(absl::StrCat("no_rope_layers must be a list of ", config->num_layers, " entries"));
    return;
  }
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    const bool rotated =
        rotates.is_null() ? (layer + 1) % interval != 0 : rotates[static_cast<size_t>(layer)] != 0;
    if (!rotated) config->unrotated_layers.push_back(layer);
  }
}

void ReadSmollm3(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("attention_bias", false);
  config->mlp_bias = keys.Bool("mlp_bias", false);
  if (!ReadDecoder(keys, /*tied_by_default=*/true, config)) return;
  config->rope = ReadRope(keys, 2000000.0);
  ReadUnrotated(keys, config);
  const bool slides = keys.Bool("use_sliding_window", false) && keys.Has("sliding_window");
  config->layer_windows = ReadWindows(keys, config->num_layers, slides ? ReadWindow(keys) : 0,
                                      [config](int64_t layer) { return !config->rotates(layer); });
}

}  // namespace

const Family kSmolLm3 = {.architecture = "SmolLM3ForCausalLM",
                         .score_class = "SmolLM3ForSequenceClassification",
                         .model_type = "smollm3",
                         .checkpoints = "SmolLM3 3B",
                         .read = &ReadSmollm3,
                         .harmless = {"pretraining_tp", "max_window_layers", "sliding_window"}};

// Llama with other names; q, k and v of each kv head lie together in one tensor.
// Source: InternLM2's modeling_internlm2.py, beside its checkpoints.

namespace {

void ReadInternlm2(ConfigKeys& keys, ModelConfig* config) {
  config->qkv_bias = config->output_bias = keys.Bool("bias", true);
  if (!ReadDecoder(keys, /*tied_by_default=*/false, config)) return;
  config->rope = ReadRope(keys, 10000.0);
  config->layer_windows =
      ReadWindows(keys, config->num_layers, /*window=*/0, [](int64_t) { return false; });
}

Block BlockByKvHead(const ModelConfig& config, int64_t layer) {
  BlockBuilder block(config, layer);
  AttentionNames attention = UsualAttention(config);
  attention.qkv = "attention.wqkv";
  attention.by_kv_head = true;
  attention.o = "attention.wo";
  const MlpNames mlp{.gate = "feed_forward.w1", .up = "feed_forward.w3", .down = "feed_forward.w2"};
  const Row normed = block.Norm({"attention_norm"}, block.Input());
  const Row middle = block.AddMiddle(block.Attention(attention, normed, {}));
  const Row again = block.Norm({"ffn_norm"}, middle);
  return block.Finish(middle, block.GatedMlp(mlp, again, {}));
}

Outside NamedOutside(const ModelConfig& config) {
  Outside outside = UsualOutside(config);
  outside.embedding.name = "model.tok_embeddings.weight";
  outside.head.name = "output.weight";
  return outside;
}

}  // namespace

const Family kInternLm2 = {.architecture = "InternLM2ForCausalLM",
                           .model_type = "internlm2",
                           .checkpoints = "InternLM2 and 2.5, 1.8B to 20B",
                           .read = &ReadInternlm2,
                           .block = &BlockByKvHead,
                           .outside = &NamedOutside,
                           .harmless = {"pretraining_tp"}};

}  // namespace coxswain::model
