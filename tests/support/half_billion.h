// A published model that several tests reckon with.
#ifndef COXSWAIN_TESTS_SUPPORT_HALF_BILLION_H_
#define COXSWAIN_TESTS_SUPPORT_HALF_BILLION_H_

#include <cstdint>
#include <vector>

#include "common/model/model_config.h"

namespace coxswain::support {

// Qwen2.5-0.5B by its published extents.
inline model::ModelConfig HalfBillion() {
  return {.architecture = "Qwen2ForCausalLM",
          .vocab_size = 151936,
          .hidden_size = 896,
          .intermediate_size = 4864,
          .num_layers = 24,
          .num_heads = 14,
          .num_kv_heads = 2,
          .head_dim = 64,
          .tie_embeddings = true,
          .qkv_bias = true,
          .rope = {},
          .layer_windows = std::vector<int64_t>(24, 0)};
}

}  // namespace coxswain::support

#endif  // COXSWAIN_TESTS_SUPPORT_HALF_BILLION_H_
