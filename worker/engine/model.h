// The model as views into the weight and gradient buffers: what forward and backward walk. Built
// once from the plan's parameter table; finds tensors by role and layer, never by name.
#ifndef COXSWAIN_WORKER_ENGINE_MODEL_H_
#define COXSWAIN_WORKER_ENGINE_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "kernels/lora_linear.h"

namespace coxswain::engine {

// One tensor: its values and, when it is trained, where its gradient accumulates.
struct Tensor {
  float* value = nullptr;     // null: the model has no such tensor
  float* gradient = nullptr;  // null: frozen
};

// The adapters of a packed linear: y[:, column_j .. column_j + out_j) += scale (x A_j^T) B_j^T.
struct Adapters {
  int64_t members = 0;                 // adapted linears of the pack
  Tensor a;                            // [members r, in], adjacent
  Tensor b[kernels::kMaxLoraMembers];  // [out_j, r]
  int64_t out[kernels::kMaxLoraMembers] = {};
  int64_t column[kernels::kMaxLoraMembers] = {};  // first output column inside the pack
  int64_t slot = 0;  // x A^T starts at element slot T r of LayerBuffers::lora_h
};

// y [T, out] = x [T, in] W^T + bias. q, k, v (and gate, up) are packed: rows adjacent, one GEMM.
struct Linear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out], value null without bias
  int64_t in = 0, out = 0;
  Adapters adapters;
  uint32_t site = 0;  // numbers the dropout of its input
};

struct Block {
  Tensor input_norm, post_norm;  // [H]
  Tensor q_norm, k_norm;         // [head_dim], value null without QK-norm
  Linear qkv, o, gate_up, down;
  int64_t window = 0;  // last positions visible, 0: all
};

struct Model {
  model::ModelConfig config;
  Tensor embedding;  // [V, H]
  std::vector<Block> blocks;
  Tensor final_norm;  // [H]
  Tensor head;        // [V, H]; the embedding itself when tied
  double lora_scale = 0, lora_dropout = 0;
  int64_t lora_rank = 0;
  uint64_t seed = 0;  // of dropout
};

// Where each parameter lies: element offsets into "weights" and, for trainable ones, into
// "gradients", "adam.m" and "adam.v" (-1 when frozen). Table order, no gaps.
struct ParameterLayout {
  explicit ParameterLayout(const std::vector<plan::Parameter>& parameters);
  std::vector<int64_t> weight_offset;
  std::vector<int64_t> gradient_offset;
  int64_t elements = 0;
  int64_t trainable = 0;  // elements
  int64_t trainable_tensors = 0;
  int64_t trainable_chunks = 0;  // of kernels/adamw.h
};

// InvalidArgument names the role and layer that is missing, doubled, misplaced, of another shape
// than the config says, or trained unlike the tensors it is packed with.
absl::StatusOr<Model> BuildModel(const plan::Plan& plan, const ParameterLayout& layout,
                                 float* weights, float* gradients);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MODEL_H_
