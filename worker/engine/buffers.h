// Views of the plan's buffers (table in README.md), typed and named.
#ifndef COXSWAIN_WORKER_ENGINE_BUFFERS_H_
#define COXSWAIN_WORKER_ENGINE_BUFFERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "kernels/adamw.h"
#include "kernels/dtype.h"
#include "kernels/global_norm.h"
#include "worker/engine/arena.h"
#include "worker/engine/model.h"

namespace coxswain::engine {

// Extents derived from a plan. Tokens and documents are those of one micro-step at most.
struct Extents {
  explicit Extents(const plan::Plan& plan);

  int64_t tokens = 0;                 // T
  int64_t target_rows = 0;            // R: T rounded up to whole chunks of the LM head
  int64_t documents = 0;              // D
  int64_t embedding_rows = 0;         // common/plan/embedding_rows.h: of all ranks, or 0
  int64_t hidden = 0;                 // H
  int64_t query = 0;                  // Q = heads * head_dim
  int64_t key = 0;                    // K = kv_heads * head_dim
  int64_t packed = 0;                 // P = Q + 2K
  int64_t intermediate = 0;           // I
  std::vector<int64_t> lora_linears;  // adapted linears of each layer
};

// Row-major, all of T rows, in the model's dtype unless said otherwise.
struct LayerBuffers {
  void* residual_in = nullptr;   // [T, H]
  float* rstd1 = nullptr;        // [T]
  void* ln1 = nullptr;           // [T, H]
  void* qkv = nullptr;           // [T, P]
  void* qk_raw = nullptr;        // [T, Q+K], null without QK-norm
  float* qk_rstd = nullptr;      // [T, heads+kv_heads], null without QK-norm
  void* att = nullptr;           // [T, Q]
  float* lse = nullptr;          // [T * heads], layout of kernels/attention.h
  void* residual_mid = nullptr;  // [T, H]
  float* rstd2 = nullptr;        // [T]
  void* ln2 = nullptr;           // [T, H]
  void* gate_up = nullptr;       // [T, 2I]
  void* swiglu = nullptr;        // [T, I]
  void* lora_h = nullptr;        // [T * rank * adapted linears], null without adapters
  // Outputs before the scale of DoRA, null where it scales none of the pack.
  void *qkv_u = nullptr, *o_u = nullptr;         // [T, P], [T, H]
  void *gate_up_u = nullptr, *down_u = nullptr;  // [T, 2I], [T, H]
};

// Device scalars of a step.
struct Scalars {
  kernels::OptimizerScalars optimizer;
  // Summed over the ranks together, as doubles:
  kernels::NormSums norm_sums;
  double global_loss_sum = 0;

  double norm = 0;
  double loss_sum = 0;       // of this rank: objective when training, nll when evaluating
  float gradient_scale = 0;  // 1 / loss denominator
  uint32_t step = 0;         // keys dropout and stochastic rounding
  double hits = 0;           // of this rank, when evaluating: targets that are their first maximum
};
inline constexpr int64_t kScalarsBytes = 512;
static_assert(sizeof(Scalars) <= kScalarsBytes);
inline constexpr int64_t kStepSums = 3;
static_assert(offsetof(Scalars, global_loss_sum) ==
              offsetof(Scalars, norm_sums) + (kStepSums - 1) * sizeof(double));

// What self-verification reads of one group (verified_groups.h).
struct GroupStatistics {
  kernels::NormSums norm;  // of the gradient before the update; loaded: of the trained values
  uint64_t checksum = 0;   // of the trained values
  int32_t all_zero = 0;    // of the trained values
  int32_t reserved = 0;
};
inline constexpr int64_t kMaxVerifiedGroups = 512;
inline constexpr int64_t kVerificationBytes = 16384;
static_assert(kMaxVerifiedGroups * static_cast<int64_t>(sizeof(GroupStatistics)) ==
              kVerificationBytes);

// An element per output column of the packs that DoRA scales, pack after pack; null without DoRA.
struct DoraBuffers {
  float* squares = nullptr;                  // of the rows of W
  float *norm = nullptr, *factor = nullptr;  // of this step
};

struct Buffers {
  // Rows of parameters, and every flat inside them by index into the shard map.
  void *weights = nullptr, *weight_slots = nullptr;
  float *gradients = nullptr, *gradient_slots = nullptr;
  uint16_t *bf16_gradients = nullptr, *bf16_gradient_slots = nullptr;
  float* master = nullptr;                     // null: every weight is its own master
  float *adam_m = nullptr, *adam_v = nullptr;  // owned ranges
  std::vector<FlatMemory> flats;
  char* snapshot = nullptr;  // layout in snapshot.h; may be host memory
  std::vector<LayerBuffers> layers;
  void *final_residual = nullptr, *final_norm = nullptr;
  float* final_rstd = nullptr;

  void* branch = nullptr;                              // [T, H]
  void *dres = nullptr, *dnorm = nullptr;              // [T, H]
  void* dqkv = nullptr;                                // [T, P]
  void* datt = nullptr;                                // [T, Q]
  void* dswiglu = nullptr;                             // [T, I]
  void* logits = nullptr;                              // [C, V], rows LogitsStride apart
  void *head_x = nullptr, *head_dx = nullptr;          // [C, H]
  float *head_loss = nullptr, *head_nll = nullptr;     // [C]; hits in head_loss when evaluating
  void* embedding_rows = nullptr;                      // [W T, H], null unless ranks exchange them
  int32_t* embedding_ids = nullptr;                    // [W T], likewise; -1: no token
  int32_t *tokens = nullptr, *positions = nullptr;     // [T]
  int32_t *labels = nullptr, *rows = nullptr;          // [R]
  uint32_t *bins = nullptr, *bin_positions = nullptr;  // [T]; null without dropout
  int32_t* cu_seqlens = nullptr;                       // [D + 1]
  float *rope_cos = nullptr, *rope_sin = nullptr;      // [sequence_len, head_dim / 2]
  DoraBuffers dora;
  Scalars* scalars = nullptr;
  GroupStatistics* verification = nullptr;        // [kMaxVerifiedGroups]
  kernels::AdamWTensor* adamw_tensors = nullptr;  // [N trainable tensors]
  kernels::NormTensor* norm_tensors = nullptr;    // [N], by verified group
  kernels::Workspace scratch;
};

// Binds every row of the table but "scratch". InvalidArgument is that of Arena::Bind.
absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, const ParameterLayout& layout,
                                    Arena& arena);

// Binds "scratch" of at least `bytes`, what the kernels ask for (plan_check.h).
absl::StatusOr<kernels::Workspace> BindScratch(int64_t bytes, Arena& arena);

// Buffers::snapshot holds adam.m, adam.v (float32), then the owned ranges of trained flats, each in
// the dtype of its masters, without gaps.
int64_t SnapshotBytes(const plan::Plan& plan, const ParameterLayout& layout);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BUFFERS_H_
