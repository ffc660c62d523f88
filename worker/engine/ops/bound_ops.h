// The ops of common/model/ops.h with their operands, which forward and backward launch. Pointers
// are views of the buffers and of the model. Prepare makes them once.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_BOUND_OPS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_BOUND_OPS_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "common/plan/fp8_linears.h"
#include "kernels/activations/gates.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/experts/expert_rows.h"
#include "kernels/experts/grouped_gated_linear.h"
#include "kernels/experts/grouped_linear.h"
#include "kernels/experts/grouped_lora.h"
#include "kernels/experts/route.h"
#include "kernels/norms/norms.h"
#include "kernels/products/gated_linear.h"
#include "kernels/rope.h"
#include "kernels/tensors/rows.h"
#include "worker/engine/memory/model.h"

namespace coxswain::engine {

// The amaxes that an op finds beside its stores: of what it makes, and of the gradient of its
// input. Null: no product in FP8 reads that.
struct BoundStoredAmax {
  float *value = nullptr, *gradient = nullptr;
};

// y = norm(x).
struct BoundNorm {
  const Norm* norm = nullptr;
  bool layer_norm = false;  // has the second spec, else the first
  kernels::RmsNormSpec rms;
  kernels::LayerNormSpec layer;
  void *x = nullptr, *y = nullptr;         // [T, H]
  float *rstd = nullptr, *mean = nullptr;  // [T]; mean null for RMSNorm
  const void* dy = nullptr;                // [T, H]
  void* dx = nullptr;                      // [T, H]
  bool accumulates = true;                 // dx holds the gradient that bypasses the norm
  BoundStoredAmax amax = {};               // of y and of dx
};

// Of an operand in FP8, one float each: what its producer found (common/plan/buffers/fp8_amaxes.h),
// or with delayed scaling (common/plan/fp8_history.h). Null: its scale is its own, and it is looked
// for, or nothing is recorded.
struct BoundFp8Amax {
  const float* known = nullptr;
  const float* expected = nullptr;
  float* observed = nullptr;
};

// Where the operands of a linear's products in FP8 lie (common/plan/fp8_linears.h).
struct BoundFp8 {
  bool on = false;
  plan::Fp8Formats formats;
  bool keeps_x = false;       // x_turned is written by forward, of this layer alone
  bool keeps_weight = false;  // weight and weight_turned are this linear's alone
  void *x = nullptr, *x_turned = nullptr;
  void *weight = nullptr, *weight_turned = nullptr;
  // Codes of the weight are gathered: `weight` is the slot's. Null: its scale is behind its codes.
  const float* weight_scale = nullptr;
  // One float, found by the first forward after the weight may have changed, and read by those
  // after it. Null: the amax is looked for at each reading, or the weight has several scales.
  float* weight_amax = nullptr;
  void *dy = nullptr, *dy_turned = nullptr;
  BoundFp8Amax amax_of_x = {}, amax_of_dy = {};
};

struct BoundLinear {
  const Linear* linear = nullptr;
  const void* x = nullptr;   // [T, in]
  void* y = nullptr;         // [T, out]
  bool adds = false;         // adds the product to y
  void* lora_h = nullptr;    // of the layer; null without adapters
  void* u = nullptr;         // [T, out], y before the scale; null without DoRA
  void* spare = nullptr;     // [T, out], scratch of DoRA for `adds`; null when !adds
  const void* dy = nullptr;  // [T, out]
  void* dx = nullptr;        // [T, in]; null: x needs no gradient
  bool accumulates = false;  // dx holds the gradient from other readers of x
  void* du = nullptr;        // [T, out], receives the gradient of u; may be dy
  BoundFp8 fp8 = {};
};

struct BoundQkNorm {
  const QkNorm* norm = nullptr;
  kernels::QkNormSpec spec;
  void *qkv = nullptr, *raw = nullptr, *dqkv = nullptr;
  float* rstd = nullptr;
};

struct BoundRotation {
  kernels::RopeSpec spec;
  const float *cos = nullptr, *sin = nullptr;  // [sequence_len, rotated / 2]
  const float* query_scale = nullptr;          // [sequence_len]; null: none
  void *qkv = nullptr, *dqkv = nullptr;
};

struct BoundAttention {
  kernels::AttentionSpec spec;
  const Tensor* sinks = nullptr;  // value null without
  void* qkv = nullptr;            // in FP8, forward rounds it
  void* out = nullptr;
  float* lse = nullptr;
  const void* dout = nullptr;
  void* dqkv = nullptr;
  kernels::KeyValueCache cache = {};  // of the layer; null unless the plan generates
};

// Of the kernel that a gate has.
using GatedActivationSpec =
    std::variant<kernels::SwigluSpec, kernels::GegluSpec, kernels::ClampedSwigluSpec>;

// y = f(gate) up. Backward turns gate_up into its gradient.
struct BoundGate {
  GatedActivationSpec spec;
  int64_t rows_per_token = 1;
  void *gate_up = nullptr, *y = nullptr;
  void* dy = nullptr;
  BoundStoredAmax amax = {};
};

// y = f(x). Backward turns x into its gradient.
struct BoundActivation {
  kernels::GeluSpec spec;
  void *x = nullptr, *y = nullptr;
  const void* dy = nullptr;
  BoundStoredAmax amax = {};
};

struct BoundAdd {
  int64_t width = 0;
  const void *stream = nullptr, *branch = nullptr;
  void* out = nullptr;
};

// What a router decided, for the ops of its experts. R is T times the experts of a token.
struct RoutedRows {
  int64_t chosen = 0;                           // experts of a token
  int32_t *order = nullptr, *places = nullptr;  // [R]
  int32_t* offsets = nullptr;                   // [E + 1]
  float* weights = nullptr;                     // [T, chosen]
  float* dweights = nullptr;                    // [T, chosen]
};

struct BoundRoute {
  const Router* router = nullptr;
  kernels::RouteSpec spec;
  RoutedRows rows;
  bool first = false;                 // of the model's routers
  int64_t width = 0;                  // H
  const void* x = nullptr;            // [T, H]
  float* logits = nullptr;            // [T, E]
  int32_t* ids = nullptr;             // [T, chosen]
  int32_t* counts = nullptr;          // [E]
  const float* correction = nullptr;  // [E], of the choice; null without
  double* use = nullptr;              // [E + 2], of the step; null unless the plan trains
  float* dlogits = nullptr;           // [T, E]
  void* dscores = nullptr;            // [T, E], dlogits in the compute dtype
  void* dx = nullptr;                 // [T, H]; null: x needs no gradient
  bool accumulates = false;           // dx holds the gradient from other readers of x
  void* h = nullptr;                  // [T, r] of the adapter; null without
  void* dh = nullptr;                 // [T, r]; null without, or where nothing is trained
};

struct BoundDispatch {
  kernels::DispatchSpec spec;
  RoutedRows rows;
  const void* x = nullptr;  // [T, H]
  void* y = nullptr;        // [R, H]
  const void* dy = nullptr;
  void* dx = nullptr;  // null: x needs no gradient
  bool accumulates = false;
};

struct BoundGroupedLinear {
  const ExpertLinear* linear = nullptr;
  kernels::GroupedLinearSpec spec;
  kernels::GroupedLoraSpec adapter;  // rank 0: none
  void* h = nullptr;                 // [R, r]; null without an adapter
  RoutedRows rows;
  const void* x = nullptr;  // [R, in]
  void* y = nullptr;        // [R, out]
  const void* dy = nullptr;
  void* dx = nullptr;  // null: x needs no gradient
  BoundFp8 fp8 = {};   // without x_turned and dy_turned
};

struct BoundCombine {
  kernels::CombineSpec spec;
  RoutedRows rows;
  const void* x = nullptr;  // [R, H]
  void* y = nullptr;        // [T, H]
  const void* dy = nullptr;
  void* dx = nullptr;          // may be x; null: x needs no gradient
  bool wants_weights = false;  // the gradient of the router's weights
};

// y += sigmoid(logit) x. Backward turns x and the logits into their gradients.
struct BoundSigmoidGate {
  kernels::SigmoidGateSpec spec;
  void *x = nullptr, *logits = nullptr;  // [T, H], [T]
  void* y = nullptr;                     // [T, H]
  const void* dy = nullptr;
  bool wants_x = false, wants_logits = false;
};

struct BoundSplit {
  kernels::SplitRowsSpec spec;
  const void* x = nullptr;
  void *first = nullptr, *second = nullptr;
  const void *dfirst = nullptr, *dsecond = nullptr;
  void* dx = nullptr;
};

struct BoundLatentHeads {
  kernels::LatentHeadsSpec spec;
  const float *cos = nullptr, *sin = nullptr;  // [sequence_len, rotated / 2]
  const void *q = nullptr, *kv = nullptr, *k_rope = nullptr;
  void* qkv = nullptr;
  const void* dqkv = nullptr;
  void *dq = nullptr, *dkv = nullptr, *dk_rope = nullptr;
};

// qkv by a linear without adapters, with q and k rotated.
struct BoundLinearRotation {
  BoundLinear linear;
  BoundRotation rotation;
};

// add.out = add.stream + the output of a linear without adapters. That output itself is not stored.
struct BoundLinearAdd {
  BoundLinear linear;
  BoundAdd add;
};

struct BoundAddNorm {
  BoundAdd add;
  BoundNorm norm;  // of add.out
};

struct BoundGatedLinear {
  kernels::GatedLinearSpec spec;
  BoundLinear linear;
  BoundGate gate;
  bool wants_product = true;
};

struct BoundGroupedGatedLinear {
  kernels::GroupedGatedLinearSpec spec;
  BoundGroupedLinear linear;
  BoundGate gate;
  bool keeps_gate_up = true;  // backward reads it before it is computed again
};

struct BoundGateDown {
  kernels::GatedLinearSpec spec;
  BoundGate gate;
  BoundLinear down;
  // The product was not recomputed: the backward of the gate writes it to gate.dy. The gradients of
  // the down projection that read it are then computed second.
  bool product_comes_back = false;
};

struct BoundRotatedAttention {
  BoundAttention attention;
  BoundRotation rotation;
};

using BoundOp =
    std::variant<BoundNorm, BoundLinear, BoundQkNorm, BoundRotation, BoundAttention, BoundGate,
                 BoundActivation, BoundAdd, BoundRoute, BoundDispatch, BoundGroupedLinear,
                 BoundCombine, BoundSigmoidGate, BoundSplit, BoundLatentHeads, BoundLinearRotation,
                 BoundLinearAdd, BoundAddNorm, BoundGatedLinear, BoundGroupedGatedLinear,
                 BoundGateDown, BoundRotatedAttention>;

struct BoundBlock {
  std::vector<BoundOp> forward, backward;
  // Recompute levels below "block": ops that fill the shared rows again before the block's
  // backward.
  std::vector<BoundOp> again;
  // Recompute "block": the op that begins the block when it is the first of its segment, and how
  // many of its last ops write nothing that its own backward reads.
  BoundOp first;
  size_t only_for_next = 0;
};

// Amaxes that lie beside each other.
struct BoundAmaxes {
  float* first = nullptr;
  int64_t count = 0;
};

struct BoundModel {
  std::vector<BoundBlock> blocks;
  std::vector<BoundOp> tail;      // after the blocks: the final norm
  BoundNorm final_norm;           // for backward
  void* embedded = nullptr;       // [T, H]: the stream before the first block
  int64_t lowest = 0;             // no block below this one trains; num_layers: no block does
  BoundAmaxes values, gradients;  // of a sweep of forward, and of backward: zero when it begins
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_BOUND_OPS_H_
