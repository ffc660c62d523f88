// One packed linear layer with its adapters.
#ifndef COXSWAIN_WORKER_ENGINE_LINEAR_H_
#define COXSWAIN_WORKER_ENGINE_LINEAR_H_

#include "worker/engine/model.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

struct LinearForwardArgs {
  const Linear* linear = nullptr;
  const void* x = nullptr;  // [T, in]
  void* lora_h = nullptr;   // lora_h of the layer; null without adapters
  void* y = nullptr;        // [T, out], overwritten
  void* u = nullptr;        // [T, out], overwritten by y before the scale; null without DoRA
};
void LinearForward(const Sweep& sweep, const LinearForwardArgs& args);

struct LinearBackwardArgs {
  const Linear* linear = nullptr;
  const void* x = nullptr;       // [T, in], as forward read it
  const void* lora_h = nullptr;  // as forward wrote it
  const void* dy = nullptr;      // [T, out]
  void* dx = nullptr;            // [T, in], overwritten; null: x needs no gradient
  // DoRA only: u as forward wrote it, and where its gradient goes, [T, out]; du may be dy.
  const void* u = nullptr;
  void* du = nullptr;
};
// Gradients of weight, bias and adapters accumulate; a frozen tensor costs no GEMM.
void LinearBackward(const Sweep& sweep, const LinearBackwardArgs& args);
// Computes the gradients that need x, of a linear without adapters.
void LinearParameterGradients(const Sweep& sweep, const LinearBackwardArgs& args);

// The adapters of `linear` as the kernel sees them, without dropout when not training.
kernels::LoraLinearSpec LoraSpec(const Model& model, const Linear& linear, bool train);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_LINEAR_H_
