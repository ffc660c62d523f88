#include <cmath>

#include "worker/engine/block.h"

namespace coxswain::engine {

kernels::RmsNormSpec NormSpec(const model::ModelConfig& config) {
  kernels::RmsNormSpec spec;
  spec.hidden = config.hidden_size;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  return spec;
}

kernels::QkNormSpec QkSpec(const model::ModelConfig& config) {
  kernels::QkNormSpec spec;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.eps = static_cast<float>(config.rms_norm_eps);
  return spec;
}

kernels::RopeSpec RotarySpec(const model::ModelConfig& config) {
  kernels::RopeSpec spec;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  return spec;
}

kernels::AttentionSpec BlockAttentionSpec(const model::ModelConfig& config, int64_t window) {
  kernels::AttentionSpec spec;
  spec.num_heads = config.num_heads;
  spec.num_kv_heads = config.num_kv_heads;
  spec.head_dim = config.head_dim;
  spec.window = window;
  spec.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
  return spec;
}

kernels::RopeArgs BlockRope(const Pass& pass, float* qkv) {
  kernels::RopeArgs args;
  args.spec = RotarySpec(pass.model.config);
  args.tokens = pass.batch.tokens;
  args.qkv = qkv;
  args.cos = pass.buffers.rope_cos;
  args.sin = pass.buffers.rope_sin;
  args.positions = pass.buffers.positions;
  return args;
}

}  // namespace coxswain::engine
