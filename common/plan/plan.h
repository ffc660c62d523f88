// The plan: what every rank of a gang must agree on, as plain data. The planner fills it, the wire
// carries it serialised (proto/coxswain/v1/plan.proto), the engine allocates and runs exactly it.
// A field that no worker reads does not belong here, but for the prediction.
#ifndef COXSWAIN_COMMON_PLAN_PLAN_H_
#define COXSWAIN_COMMON_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/block.h"
#include "common/model/model_config.h"
#include "common/model/parameter.h"
#include "common/plan/document_loss.h"
#include "common/plan/policy_loss.h"
#include "common/words.h"

namespace coxswain::plan {

// An optimizer group: learning rate of the step x lr_scale; decoupled weight decay of its own lr.
struct ParameterGroup {
  std::string name;               // e.g. "weights", "norms_and_biases", "lora_a", "lora_b"
  double lr_scale = 1.0;          // > 0
  double weight_decay = 0.0;      // >= 0
  int64_t expected_elements = 0;  // trainable elements; Prepare refuses another count
  bool operator==(const ParameterGroup&) const = default;
};

struct Lora {
  int64_t rank = 0;      // 0: no adapter
  double scale = 0.0;    // alpha/r, or alpha/sqrt(r) with rsLoRA
  double dropout = 0.0;  // on the input of A
  // PEFT adapter directory, empty: A Kaiming uniform (a = sqrt 5), B = 0, magnitudes the norms of
  // the rows of the base weights
  std::string init_from;
  bool dora = false;  // every adapted linear has a Part::kMagnitude; excludes dropout
  bool operator==(const Lora&) const = default;
};

// Factors of the losses of routers (kernels/experts/router_loss.h) beside that of the tokens; 0:
// none.
struct RouterLosses {
  double balance = 0, z = 0;
  // One pool of the rows of all layers and bins of a micro-step; else one of each bin, so that the
  // cut into micro-steps and ranks changes nothing.
  bool by_micro_batch = false;
  bool any() const { return balance > 0 || z > 0; }
  bool operator==(const RouterLosses&) const = default;
};

enum class MemoryClass : uint32_t {
  kWeights = 1,
  kGradients = 2,
  kOptimizer = 3,
  kActivations = 4,
  kWorkspace = 5,
  kHost = 6,  // of the host, pageable; not device memory
};

// How a gradient in bfloat16 takes what another micro-step or chunk of the head adds to it
// (kernels/tensors/gradient_sum.h).
enum class GradientSum : uint32_t { kNearest = 0, kStochastic = 1, kCompensated = 2 };

// One allocation of the worker. The engine allocates each once at Prepare and nothing after.
struct Buffer {
  std::string name;  // of buffer_names.h, or of a row that an op writes: "layer0.qkv"
  MemoryClass memory_class{};
  int64_t bytes = 0;     // 0 when alias_of is set
  std::string alias_of;  // shares this buffer's memory, empty: owns it
  bool operator==(const Buffer&) const = default;
};

// A point of the curve of a link: a collective that moves `bytes` through each rank does so at this
// speed.
struct LinkSpeed {
  int64_t bytes = 0;
  double bytes_per_second = 0;
  bool operator==(const LinkSpeed&) const = default;
};

// A prediction is of one optimizer step of the whole global batch. Nothing is computed from it: it
// is fixed before the first step, so that what is measured can be held against it.
struct Prediction {
  double step_seconds = 0;     // 0: the rates of the GPU are not known
  double comm_seconds = 0;     // of all collectives
  double exposed_seconds = 0;  // of these, in which compute waits; 0 without step_seconds
  bool operator==(const Prediction&) const = default;
};

// What is set aside for answers: keys and values of `sequences` texts of at most `length` tokens,
// prompt included, of every layer. 0: nothing is generated.
struct Generation {
  int64_t sequences = 0;  // at most the tokens of a micro-step, and lm_head_chunk_tokens
  int64_t length = 0;     // 1 .. sequence_len
  bool operator==(const Generation&) const = default;
};

enum class Fp8Recipe : uint32_t {
  kNone = 0,
  kTensorwise = 1,  // a scale of each operand
  kRowwise = 2,     // of each row of an operand, along the sum
  kBlockwise = 3,   // of 128 neighbours of activations and gradients, of 128 x 128 weights
  // Of each operand; that of activations and gradients follows from earlier updates
  // (fp8_history.h).
  kDelayed = 4,
  kLast = kDelayed,
};

// A linear of a block, by the id of its op.
struct LinearPlace {
  int64_t layer = 0;
  int32_t op = 0;
  auto operator<=>(const LinearPlace&) const = default;
};

// Products of the linears of blocks in FP8 (fp8_linears.h): values in E4M3, gradients of outputs in
// E5M2. Weights, their gradients and all other ops keep the plan's dtypes.
struct Fp8 {
  Fp8Recipe recipe{};
  bool e4m3_gradients = false;  // of outputs
  // Outputs of norms and gates are kept for the gradients of weights in FP8 alone.
  bool keeps_activations = true;
  // Codes of all weights are made once a command; else for each product.
  bool keeps_weights = false;
  // Under ZeRO 3 ranks gather codes of these weights instead of values (fp8_gather.h). Of recipes
  // with a scale of each weight.
  bool gathers_codes = false;
  // The linears of experts too, forward and for the gradient of their rows. Of such recipes as
  // well.
  bool experts = false;
  bool attention = false;             // forward, of all blocks (kernels/attention/fp8_attention.h)
  std::vector<LinearPlace> excluded;  // ascending
  bool operator==(const Fp8&) const = default;
};

struct Plan {
  std::string job;
  std::string recipe_hash;  // 32 bytes; checkpoints of another recipe are refused
  std::string model_path;   // absolute directory
  BaseInit init = BaseInit::kPretrained;
  uint64_t init_seed = 0;  // base weights when init is kRandom
  uint64_t seed = 42;      // adapter init, dropout
  model::ModelConfig model;
  model::Architecture architecture;          // what the model computes: its ops and tensors
  std::vector<model::Parameter> parameters;  // order in memory: shard_map.h
  std::vector<ParameterGroup> groups;        // empty: nothing is trained, only generated
  Lora lora;
  int32_t replicate = 1;  // replicas; world size = replicate * shard
  int32_t shard = 1;      // ranks of a replica, each of which updates its part of all
  // What else the ranks of a replica split (shard_map.h): 0 with shard 1; 1: masters and moments;
  // 2: gradients of blocks too; 3: weights of blocks too.
  int32_t zero = 0;
  // Under ZeRO 3: slots that hold gathered weights of blocks. 2, and what is computed hides what is
  // fetched; with more the rest stays from sweep to sweep; num_layers: each is gathered once an
  // update.
  int32_t weight_slots = 2;
  std::vector<std::string> fusions;  // names of Fusions() (fused_ops.h) that rewrite the ops
  bool overlap = true;               // collectives run beside compute; false: in its stream
  int64_t sequence_len = 0;          // bin capacity, tokens
  int64_t micro_batch_bins = 1;      // bins of one micro-step
  int64_t max_documents_per_bin = 32;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  int64_t recompute_every = 1;  // blocks of a segment of kBlock, 1 .. layers
  // Rows of a chunk of the LM head, > 0: the rows with a target are padded to a multiple of it.
  int64_t lm_head_chunk_tokens = 0;
  // Of the workspace of a cut head (kernels/loss/cut_cross_entropy.h), which has no chunk of
  // logits; 0: logits in chunks.
  int64_t lm_head_panel_bytes = 0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;  // a row of optimizer_states.h
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping
  double label_smoothing = 0.0, z_loss = 0.0;
  DocumentLoss document_loss;  // none: the loss is a sum over targets
  PolicyLoss policy_loss;      // none, or instead of document_loss
  RouterLosses router_losses;
  // Of what an update adds to or takes from the correction of each expert
  // (kernels/experts/expert_use.h); 0: corrections stay.
  double router_bias_rate = 0;
  DeviceKind device = DeviceKind::kCpu;
  bool snapshot_in_slices =
      false;  // cuda: snapshots are not page-locked (worker/engine/snapshot/state_copy.h)
  Precision compute_dtype = Precision::kFloat32;    // weights and activations
  Fp8 fp8;                                          // excludes quantization
  Quantization quantization = Quantization::kNone;  // of frozen weights; none: the compute dtype
  // Quantised experts that are dequantised at a time, right before their product (expert_ranges.h);
  // 0: all of a block with its other weights, ahead of the block.
  int64_t experts_at_once = 0;
  // Of trained weights. With compute bfloat16, float32 keeps a master copy of every trained tensor;
  // bfloat16 rounds the weights themselves stochastically (adapters keep a float32 master always).
  Precision master_dtype = Precision::kFloat32;
  // Of the gradients of matrices of the base model. Vectors, a tied embedding and adapters
  // accumulate in float32 always (storage.h).
  Precision gradient_dtype = Precision::kFloat32;
  // Of gradients in bfloat16 (gradient_sum.h).
  GradientSum gradient_sum = GradientSum::kNearest;
  bool attention_deterministic = true;
  // An algorithm that needs more is not taken.
  int64_t attention_workspace_bytes = int64_t{4} << 30;
  Generation generation;
  std::vector<Buffer> buffers;
  std::vector<LinkSpeed> links;  // ascending by bytes, that `predicted` rests on; empty: one rank
  bool links_measured = false;   // where a gang of such ranks was formed; else assumed
  Prediction predicted;

  int32_t world_size() const { return replicate * shard; }
  bool trains() const { return !groups.empty(); }
  bool generates() const { return generation.sequences > 0; }
  // Rows have weights, which follow from the log-probabilities of their documents.
  bool weighs_rows() const {
    return (document_loss.any() && !document_loss.of_scores()) || policy_loss.any();
  }
  bool operator==(const Plan&) const = default;
};

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_PLAN_H_
