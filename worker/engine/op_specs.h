// Kernel specs for the ops of a model.
#ifndef COXSWAIN_WORKER_ENGINE_OP_SPECS_H_
#define COXSWAIN_WORKER_ENGINE_OP_SPECS_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cached_attention.h"
#include "kernels/gated_linear.h"
#include "kernels/geglu.h"
#include "kernels/gelu.h"
#include "kernels/layer_norm.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "worker/engine/bound_ops.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// Gradients of norm weights and biases are float32.
kernels::RmsNormSpec NormSpec(const Model& model);
kernels::LayerNormSpec LayerNormSpecOf(const Model& model, const Norm& norm);
kernels::QkNormSpec QkSpec(const Model& model, bool whole);
kernels::RopeSpec RotarySpec(const Model& model);
kernels::AttentionSpec BlockAttentionSpec(const Model& model, int64_t window);
kernels::GatedLinearSpec GatedSpec(const Model& model);
// True when the gate's activation is SiLU; else GateSpec has it.
bool UsesSwiglu(const Model& model);
kernels::GegluSpec GateSpec(const Model& model);
kernels::GeluSpec ActivationSpec(const Model& model);

// `length`: of the plan's generation.
kernels::CachedAttentionSpec CachedSpec(const Model& model, int64_t window, int64_t length);
kernels::CacheRows CacheRowsOf(const Sweep& sweep);

kernels::Documents DocumentsOf(const Sweep& sweep);

// The rotation is in place on the q and k heads of `qkv` [T, P].
kernels::RopeArgs RotationArgs(const Sweep& sweep, const BoundRotation& rotation, void* qkv);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OP_SPECS_H_
