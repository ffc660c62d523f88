#include "worker/engine/op_specs.h"

namespace coxswain::engine {

kernels::RmsNormSpec NormSpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  kernels::RmsNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.hidden = config.hidden_size;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  spec.weight_offset = config.norm_weights_from_one ? 1.0f : 0.0f;
  return spec;
}

kernels::LayerNormSpec LayerNormSpecOf(const Model& model, const Norm& norm) {
  kernels::LayerNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.grad_dtype = norm.weight.gradient_dtype;
  spec.hidden = model.config.hidden_size;
  spec.eps = static_cast<float>(model.config.rms_norm_eps);
  return spec;
}

kernels::QkNormSpec QkSpec(const Model& model, bool whole) {
  const model::ModelConfig& config = model.config;
  kernels::QkNormSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  spec.weight_offset = config.norm_weights_from_one ? 1.0f : 0.0f;
  spec.whole = whole;
  return spec;
}

namespace {

kernels::GateActivation ActivationOf(const model::ModelConfig& config) {
  if (config.activation == "gelu_tanh") return kernels::GateActivation::kGeluTanh;
  if (config.activation == "gelu") return kernels::GateActivation::kGelu;
  return kernels::GateActivation::kSilu;
}

}  // namespace

kernels::GatedLinearSpec GatedSpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  return {.dtype = model.compute_dtype,
          .hidden = config.hidden_size,
          .intermediate = config.intermediate_size,
          .activation = ActivationOf(config)};
}

bool UsesSwiglu(const Model& model) { return model.config.activation == "silu"; }

kernels::GegluSpec GateSpec(const Model& model) {
  return {.dtype = model.compute_dtype,
          .intermediate = model.config.intermediate_size,
          .tanh = model.config.activation == "gelu_tanh"};
}

kernels::GeluSpec ActivationSpec(const Model& model) {
  return {.dtype = model.compute_dtype,
          .columns = model.config.intermediate_size,
          .tanh = model.config.activation == "gelu_tanh"};
}

kernels::RopeSpec RotarySpec(const Model& model) {
  const model::ModelConfig& config = model.config;
  kernels::RopeSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.rotated = config.rope.rotated;
  spec.interleaved = config.rope.interleaved;
  return spec;
}

kernels::AttentionSpec BlockAttentionSpec(const Model& model, int64_t window) {
  const model::ModelConfig& config = model.config;
  kernels::AttentionSpec spec;
  spec.dtype = model.compute_dtype;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.window = window;
  spec.deterministic = model.attention_deterministic;
  spec.scale = static_cast<float>(config.score_scale());
  spec.softcap = static_cast<float>(config.attention_softcap);
  return spec;
}

kernels::CachedAttentionSpec CachedSpec(const Model& model, int64_t window, int64_t length) {
  return {.attention = BlockAttentionSpec(model, window), .length = length};
}

kernels::CacheRows CacheRowsOf(const Sweep& sweep) {
  return {sweep.batch.tokens, sweep.buffers.cached_sequences, sweep.buffers.positions};
}

kernels::Documents DocumentsOf(const Sweep& sweep) {
  return {sweep.batch.documents, sweep.buffers.cu_seqlens, sweep.batch.max_length,
          sweep.batch.dense};
}

kernels::RopeArgs RotationArgs(const Sweep& sweep, const BoundRotation& rotation, void* qkv) {
  kernels::RopeArgs args;
  args.spec = RotarySpec(sweep.model);
  args.tokens = sweep.batch.tokens;
  args.qkv = qkv;
  args.cos = rotation.cos;
  args.sin = rotation.sin;
  args.positions = sweep.buffers.positions;
  args.query_scale = rotation.query_scale;
  return args;
}

}  // namespace coxswain::engine
