// Views of the plan's buffers (table in README.md), typed and named.
#ifndef COXSWAIN_WORKER_ENGINE_BUFFERS_H_
#define COXSWAIN_WORKER_ENGINE_BUFFERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "kernels/adamw.h"
#include "kernels/dtype.h"
#include "kernels/global_norm.h"
#include "worker/engine/arena.h"

namespace coxswain::engine {

// Extents derived from a plan. Tokens and documents are those of one micro-step at most.
struct Extents {
  explicit Extents(const plan::Plan& plan);

  int64_t tokens = 0;        // T
  int64_t documents = 0;     // D
  int64_t hidden = 0;        // H
  int64_t query = 0;         // Q = heads * head_dim
  int64_t key = 0;           // K = kv_heads * head_dim
  int64_t packed = 0;        // P = Q + 2K
  int64_t intermediate = 0;  // I
  int64_t elements = 0;      // of all parameters
  int64_t trainable = 0;     // of parameters with a group
  int64_t trainable_tensors = 0;
  int64_t trainable_chunks = 0;
  std::vector<int64_t> lora_linears;  // adapted linears of each layer
};

// Row-major, all of T rows unless said otherwise.
struct LayerBuffers {
  float* residual_in = nullptr;   // [T, H]
  float* rstd1 = nullptr;         // [T]
  float* ln1 = nullptr;           // [T, H]
  float* qkv = nullptr;           // [T, P]
  float* qk_raw = nullptr;        // [T, Q+K], null without QK-norm
  float* qk_rstd = nullptr;       // [T, heads+kv_heads], null without QK-norm
  float* att = nullptr;           // [T, Q]
  float* lse = nullptr;           // [T * heads], layout of kernels/attention.h
  float* residual_mid = nullptr;  // [T, H]
  float* rstd2 = nullptr;         // [T]
  float* ln2 = nullptr;           // [T, H]
  float* gate_up = nullptr;       // [T, 2I]
  float* swiglu = nullptr;        // [T, I]
  float* lora_h = nullptr;  // per adapted linear one [T, r] block, in role order; null without
};

// Device scalars of a step.
struct Scalars {
  kernels::OptimizerScalars optimizer;
  kernels::NormSums norm_sums;
  kernels::NormSums part_sums;  // of one verification part
  double norm = 0;
  double loss_sum = 0;       // of this rank: objective when training, nll when evaluating
  float gradient_scale = 0;  // 1 / loss denominator
  uint32_t step = 0;         // keys dropout
};
inline constexpr int64_t kScalarsBytes = 256;
static_assert(sizeof(Scalars) <= kScalarsBytes);

struct Buffers {
  float *weights = nullptr, *gradients = nullptr, *adam_m = nullptr, *adam_v = nullptr;
  float* snapshot = nullptr;  // masters, m, v: [3, trainable]
  std::vector<LayerBuffers> layers;
  float *final_residual = nullptr, *final_norm = nullptr, *final_rstd = nullptr;

  float* branch = nullptr;                                                              // [T, H]
  float *dres = nullptr, *dnorm = nullptr;                                              // [T, H]
  float* dqkv = nullptr;                                                                // [T, P]
  float* datt = nullptr;                                                                // [T, Q]
  float* dswiglu = nullptr;                                                             // [T, I]
  float* logits = nullptr;                                                              // [C, V]
  float *head_x = nullptr, *head_dx = nullptr;                                          // [C, H]
  float *head_loss = nullptr, *head_nll = nullptr;                                      // [C]
  int32_t *tokens = nullptr, *positions = nullptr, *labels = nullptr, *rows = nullptr;  // [T]
  uint32_t *bins = nullptr, *bin_positions = nullptr;  // [T]; null without dropout
  int32_t* cu_seqlens = nullptr;                       // [D + 1]
  float *rope_cos = nullptr, *rope_sin = nullptr;      // [sequence_len, head_dim / 2]
  Scalars* scalars = nullptr;
  kernels::AdamWTensor* adamw_tensors = nullptr;  // [N trainable tensors]
  kernels::NormTensor* norm_tensors = nullptr;    // [N], by verification part (verify.h)
  kernels::Workspace scratch;
};

// Binds every row of the table but "scratch". InvalidArgument as Arena::Bind.
absl::StatusOr<Buffers> BindBuffers(const plan::Plan& plan, Arena& arena);

// Binds "scratch" of at least `bytes`, what the kernels ask for (plan_check.h).
absl::StatusOr<kernels::Workspace> BindScratch(int64_t bytes, Arena& arena);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BUFFERS_H_
