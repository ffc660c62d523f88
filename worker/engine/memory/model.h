// The model as views into the weight and gradient buffers, which forward and backward walk. It is
// built once from the plan's ops and parameters. Tensors are found by layer and number, never by
// name.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_MODEL_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_MODEL_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/ops.h"
#include "common/plan/plan.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"
#include "kernels/dtype.h"
#include "kernels/experts/router_loss.h"
#include "kernels/lora/lora_linear.h"

namespace coxswain::engine {

// One tensor: its values as sweeps read them and, if it is trained, its accumulated gradient.
struct Tensor {
  void* value = nullptr;  // null: the model has no such tensor
  // E4M3, where ranks gather codes (common/plan/fp8_gather.h), else null. They lie where `value`
  // does: it is read in answers to prompts alone.
  uint8_t* codes = nullptr;
  void* gradient = nullptr;  // null: frozen
  kernels::DType dtype = kernels::DType::kFloat32;
  kernels::DType gradient_dtype = kernels::DType::kFloat32;
  bool gradient_slotted = false;  // the gradient is that of one micro-step, in a slot
  void* companion = nullptr;  // of a compensated sum (kernels/tensors/gradient_sum.h), else null
  // Of its first element among those of all parameters in the plan's order, each of which begins at
  // a multiple of 8: the same on every mesh.
  int64_t number = 0;
};

// The adapters of a packed linear: y[:, column_j .. column_j + out_j) += scale (x A_j^T) B_j^T.
struct Adapters {
  // The adapted linears of the pack. DoRA: y = (x W^T + scale x A^T B^T) m / norm + bias;
  // magnitudes null without.
  std::vector<kernels::LoraMember> members;
  Tensor a;                 // [members r, in], adjacent in memory
  int64_t slot = 0;         // x A^T starts at element slot T r of LayerBuffers::lora_h
  int64_t dora_column = 0;  // of the pack's first column in Buffers::dora
};

// y [T, out] = x [T, in] W^T + bias. q, k, v (and gate, up) are packed: rows adjacent, one GEMM.
struct Linear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out], value null without bias
  int64_t in = 0, out = 0;
  Adapters adapters;
  uint32_t site = 0;  // number of its input's dropout
};

// e[t] += scale A[id_t] B^T, e scaled like the embedding. Values null without.
struct EmbeddingAdapter {
  Tensor a;  // [V, r]
  Tensor b;  // [H, r]
};

struct Norm {
  Tensor weight;  // [width]
  Tensor bias;    // [width], value null without
};

struct QkNorm {
  Tensor q, k;
};

struct Router {
  Tensor weight;      // [E, H]
  Tensor bias;        // [E], of the product; value null without
  Tensor correction;  // [E], of the choice; value null without
  Tensor a, b;        // the adapter: [r, H], [E, r]; values null without
};

// Codes of quantised elements, and their scales (plan::ScaleBytes).
struct PackedMemory {
  char* codes = nullptr;
  char* scales = nullptr;
};

// A matrix that is kept as codes.
struct QuantizedMatrix {
  plan::Storage storage{};
  int64_t cols = 0;
  PackedMemory packed;               // from its first element on
  const float* constants = nullptr;  // [plan::ScaleConstants]
};

// One linear of each expert, behind one another.
struct ExpertLinear {
  Tensor weight;  // [E, out, in]; value null where a few experts are dequantised at a time
  QuantizedMatrix quantized;  // then
  Tensor bias;                // [E, out], value null without
  Tensor a, b;                // the adapters: [E, r, in], [E, out, r]; values null without
  int64_t rank = 0;           // r, which may be another than that of linears; 0 without
};

// The tensors of a block by the number of the op that takes them.
struct Block {
  std::map<int32_t, Norm> norms;
  std::map<int32_t, QkNorm> qk_norms;
  std::map<int32_t, Linear> linears;
  std::map<int32_t, Tensor> sinks;  // [query heads]
  std::map<int32_t, Router> routers;
  std::map<int32_t, ExpertLinear> experts;
};

struct Model {
  model::ModelConfig config;
  kernels::DType compute_dtype = kernels::DType::kFloat32;  // of activations
  Tensor embedding;                                         // [V, H]
  EmbeddingAdapter embedding_adapter;
  std::vector<Block> blocks;
  Norm final_norm;
  Tensor head;          // [V, H]; the embedding itself when tied
  Linear adapted_head;  // the adapters of the head; has no weight
  bool attention_deterministic = true;
  bool fp8_attention = false;     // plan::Fp8::attention
  bool recompute_blocks = false;  // plan::Plan::recompute is "block"
  int64_t recompute_every = 1;    // then blocks of a segment
  double lora_scale = 0, lora_dropout = 0;
  int64_t lora_rank = 0;
  bool dora = false;
  bool keeps_fp8_weights = false;     // plan::Fp8::keeps_weights
  bool remembers_fp8_amaxes = false;  // of weights (plan::Fp8Amaxes)
  bool trains_fp8_weights = false;    // with either some of them are trained
  uint64_t seed = 0;                  // of dropout, and of how gradients are rounded
  plan::GradientSum gradient_sum = plan::GradientSum::kNearest;
  plan::RouterLosses router_losses;
  kernels::RouterLossSpec router_spec;  // of every layer with experts
  int64_t router_loss_sums = 0;         // first double of those of losses in "router.use"
  int64_t generation_length = 0;        // of plan::Generation
  int64_t experts_at_once = 0;          // of plan::Plan

  // Whether a forward reads weights for what those after it know.
  bool reads_fp8_weights_once() const { return keeps_fp8_weights || remembers_fp8_amaxes; }
  // Whether the first forward of a command launches more than others (micro_step.cc).
  bool first_differs() const { return dora || trains_fp8_weights; }
};

// The parameters as this rank holds them. A piece is the owned range of a trained parameter, if not
// empty. The rank reduces its gradient, updates, checks and saves it.
struct ParameterLayout {
  ParameterLayout(const plan::Plan& plan, int rank);

  plan::ShardMap map;
  plan::MeshPlace place;
  std::vector<plan::Range> owned;  // elements, by parameter
  int64_t trainable_tensors = 0;   // of the plan: at most one piece each
  int64_t pieces = 0;
  int64_t piece_chunks = 0;                            // of kernels/optimizer/adamw.h
  int64_t embedding_pieces = 0, embedding_chunks = 0;  // those of the embedding's unit

  const plan::Flat& FlatOf(size_t i) const { return map.flats[map.places[i].flat]; }
  bool HasPiece(const plan::Plan& plan, size_t i) const {
    return plan.parameters[i].trainable() && owned[i].count() > 0;
  }
  // The place of parameter i's first owned element inside the owned range of its flat.
  int64_t OffsetInOwned(size_t i) const {
    return map.places[i].offset + owned[i].begin - place.shard * FlatOf(i).owned;
  }
};

// A flat in this rank's memory. Null: the rank has no such memory.
struct FlatMemory {
  void* values = nullptr;  // [elements], read by sweeps; a slot holds them only during a sweep
  // [elements], E4M3, in the same slot instead of `values`; null: ranks gather no codes of it.
  uint8_t* codes = nullptr;
  void* owned = nullptr;  // [owned] of them, written by updates
  // Quantised: values are dequantised from `packed`. `owned_packed` are this rank's elements of it.
  // Values are null where experts are dequantised in ranges.
  PackedMemory packed, owned_packed;
  float* constants = nullptr;  // those of all flats
  void* gradient = nullptr;    // [elements], accumulated by backward
  void* companion = nullptr;   // [elements], of `gradient`; null: not a compensated sum
  void* reduced = nullptr;     // [owned], the gradient summed over micro-steps and ranks
  void* master = nullptr;      // [owned], written by updates if weights are copies of it
  kernels::DType dtype = kernels::DType::kFloat32;  // of values
  kernels::DType master_dtype = kernels::DType::kFloat32;
  kernels::DType gradient_dtype = kernels::DType::kFloat32;
  kernels::DType reduced_dtype = kernels::DType::kFloat32;
  bool gradient_slotted = false;
};

// The same tensors, none of them adapted: what the base model computes.
Model WithoutAdapters(const Model& model);

kernels::DType DTypeOf(plan::Storage storage);
kernels::DType ComputeDType(const plan::Plan& plan);  // of activations

// Quantised parameter i, with the memory of its flat.
QuantizedMatrix QuantizedMatrixOf(const plan::Plan& plan, const ParameterLayout& layout, size_t i,
                                  const FlatMemory& memory);

// InvalidArgument names layer and number of a tensor that is missing, doubled or misplaced, has
// another shape than its op takes, or is trained unlike the tensors with which it is packed.
absl::StatusOr<Model> BuildModel(const plan::Plan& plan, const ParameterLayout& layout,
                                 const std::vector<FlatMemory>& flats);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_MODEL_H_
