// Kernel specs for the ops of a model.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_OP_SPECS_H_
#define COXSWAIN_WORKER_ENGINE_OPS_OP_SPECS_H_

#include <cstdint>
#include <vector>

#include "kernels/activations/gates.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/attention/heads.h"
#include "kernels/norms/norms.h"
#include "kernels/products/bias.h"
#include "kernels/products/gated_linear.h"
#include "kernels/rope.h"
#include "worker/engine/ops/bound_ops.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Gradients of norm weights and biases are float32.
kernels::RmsNormSpec RmsSpec(const Model& model, const model::NormOp& op);
kernels::LayerNormSpec LayerSpec(const Model& model, const model::NormOp& op, const Norm& norm);
kernels::QkNormSpec QkSpec(const Model& model, const model::QkNormOp& op);
kernels::RopeSpec RotarySpec(const Model& model, const model::RotateOp& op);
// Of training and evaluation.
kernels::AttentionSpec HeadsSpec(const Model& model, const model::AttentionOp& op);
// As prompts are answered, also where training is in FP8.
kernels::AttentionSpec InComputeDtype(kernels::AttentionSpec spec);
// Of the attentions of all blocks, each once.
std::vector<kernels::AttentionSpec> HeadsSpecs(const Model& model,
                                               const model::Architecture& architecture);
kernels::GatedLinearSpec GatedLinearOf(const Model& model, const model::GateOp& gate,
                                       int64_t hidden);
GatedActivationSpec GateOf(const Model& model, const model::GateOp& op);
kernels::GeluSpec GeluOf(const Model& model, const model::ActivationOp& op);
kernels::RouteSpec RouterSpec(const model::RouteOp& op);
// Of the gradient of a router's bias, out of that of its logits.
kernels::BiasSpec RouterBiasSpec(const Tensor& bias);
kernels::GroupedLinearSpec ExpertsSpec(const Model& model, const model::GroupedLinearOp& op);
kernels::GroupedGatedLinearSpec GatedExpertsSpec(const Model& model,
                                                 const model::GroupedGatedLinearOp& op);
// Rank 0 without adapters.
kernels::GroupedLoraSpec ExpertAdapterSpec(const Model& model, const model::GroupedLinearOp& op,
                                           const ExpertLinear& experts);
kernels::SplitRowsSpec SplitSpec(const Model& model, const model::SplitOp& op);
kernels::LatentHeadsSpec LatentSpec(const Model& model, const model::LatentHeadsOp& op);
kernels::SigmoidGateSpec SigmoidGateOf(const Model& model, const model::SigmoidGateOp& op);

// `length`: of the plan's generation.
kernels::CachedAttentionSpec CachedSpec(const kernels::AttentionSpec& attention, int64_t length);
kernels::CacheRows CacheRowsOf(const Sweep& sweep);

kernels::Documents DocumentsOf(const Sweep& sweep);

// The rotation is in place on the q and k heads of `qkv` [T, P].
kernels::LatentPlaces PlacesOf(const Sweep& sweep, const BoundLatentHeads& op);
kernels::RopeArgs RotationArgs(const Sweep& sweep, const BoundRotation& rotation, void* qkv);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_OP_SPECS_H_
