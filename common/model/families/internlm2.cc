// Llama with other names; q, k and v of each kv head lie together in one tensor.
// Source: InternLM2's modeling_internlm2.py, beside its checkpoints.
#include "common/model/families/families.h"
#include "common/model/read/read_decoder.h"
#include "common/model/read/read_rope.h"

namespace coxswain::model {
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
