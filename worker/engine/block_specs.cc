#include "worker/engine/block.h"

namespace coxswain::engine {

kernels::RmsNormSpec NormSpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  kernels::RmsNormSpec spec;
  spec.dtype = model.dtype;
  spec.hidden = config.hidden_size;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  spec.weight_offset = config.norm_weights_from_one ? 1.0f : 0.0f;
  return spec;
}

kernels::QkNormSpec QkSpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  kernels::QkNormSpec spec;
  spec.dtype = model.dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  return spec;
}

kernels::GatedLinearSpec GatedSpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  return {
      .dtype = model.dtype, .hidden = config.hidden_size, .intermediate = config.intermediate_size};
}

bool UsesSwiglu(const Model& model) { return model.config.activation == "silu"; }

kernels::GegluSpec GateSpec(const Model& model) {
  return {.dtype = model.dtype,
          .intermediate = model.config.intermediate_size,
          .tanh = model.config.activation == "gelu_tanh"};
}

kernels::RopeSpec RotarySpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  kernels::RopeSpec spec;
  spec.dtype = model.dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  return spec;
}

kernels::AttentionSpec BlockAttentionSpec(const Model& model, int64_t window) {
  const model::ModelConfig& config = model.config;
  kernels::AttentionSpec spec;
  spec.dtype = model.dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.window = window;
  spec.deterministic = model.attention_deterministic;
  spec.scale = static_cast<float>(config.score_scale());
  return spec;
}

kernels::RopeArgs BlockRope(const Sweep& sweep, void* qkv) {
  kernels::RopeArgs args;
  args.spec = RotarySpec(sweep.model);
  args.tokens = sweep.batch.tokens;
  args.qkv = qkv;
  args.cos = sweep.buffers.rope_cos;
  args.sin = sweep.buffers.rope_sin;
  args.positions = sweep.buffers.positions;
  return args;
}

}  // namespace coxswain::engine
