// One transformer block, forward and backward, in paper order, f being SiLU or GELU:
//   x1 = x + attention(norm1(x)) Wo;  x2 = x1 + (f(g) u) Wd with (g, u) = norm2(x1) Wgu
// The last add of a block is done by the next norm, which consumes Buffers::branch.
// Source: Touvron et al., "LLaMA", 2023; transformers modeling_llama.py, LlamaDecoderLayer.
#ifndef COXSWAIN_WORKER_ENGINE_BLOCK_H_
#define COXSWAIN_WORKER_ENGINE_BLOCK_H_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/gated_linear.h"
#include "kernels/geglu.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// In: layer 0: residual_in. Others: residual_mid of the block before and Buffers::branch, whose sum
// becomes residual_in. Out: residual_mid, Buffers::branch (output of the down projection).
void BlockForward(const Sweep& sweep, int64_t layer);

// The unit of a block, as common/plan/shard_map.h numbers them.
inline int32_t UnitOf(int64_t layer) { return static_cast<int32_t>(layer) + 1; }

struct Segment {
  int64_t begin = 0, end = 0;  // blocks
};
// The blocks that BlockRecompute(layer) computes again from their weights; empty below kBlock.
Segment RecomputedSegment(const Model& model, int64_t layer);

// Fills again, bit for bit, what the backward of `layer` reads and the recompute level shares
// between layers. Called before every BlockBackward, from the last layer down.
void BlockRecompute(const Sweep& sweep, int64_t layer);

// The gated product of `layer` is not filled by BlockRecompute: its backward writes it while it has
// gate and up at hand, for the weight gradient of the down projection, which then comes second.
bool SwigluComesBack(const Model& model, int64_t layer);

struct BlockBackwardArgs {
  int64_t layer = 0;
  bool input_gradient = true;  // false: nothing below is trained, the block's input norm neither
};
// In: Buffers::dres, gradient of the block's output. Out: dres, gradient of residual_in. Parameter
// gradients accumulate. Overwrites the layer's gate_up.
void BlockBackward(const Sweep& sweep, const BlockBackwardArgs& args);

// Gradients of norm weights are float32.
kernels::RmsNormSpec NormSpec(const Model& model);
kernels::QkNormSpec QkSpec(const Model& model);
kernels::RopeSpec RotarySpec(const Model& model);
kernels::AttentionSpec BlockAttentionSpec(const Model& model, int64_t window);
kernels::GatedLinearSpec GatedSpec(const Model& model);
// The gate's activation is SiLU; else it is the one of GateSpec.
bool UsesSwiglu(const Model& model);
kernels::GegluSpec GateSpec(const Model& model);

// The rotation is in place on the q and k heads of `qkv` [T, P].
kernels::RopeArgs BlockRope(const Sweep& sweep, void* qkv);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BLOCK_H_
