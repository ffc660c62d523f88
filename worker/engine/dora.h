// What DoRA keeps per output column of the adapted linears: Buffers::dora.
#ifndef COXSWAIN_WORKER_ENGINE_DORA_H_
#define COXSWAIN_WORKER_ENGINE_DORA_H_

#include "worker/engine/buffers.h"
#include "worker/engine/model.h"
#include "worker/engine/parameter_store.h"

namespace coxswain::engine {

// Fills Buffers::dora.squares from the base weights, which are frozen, and, when the plan starts no
// adapter from a file, the magnitudes: with B zero they are the norms of the rows. Waits.
// Source: peft 0.21 lora/dora.py, DoraLinearLayer.update_layer.
void InitDora(const plan::Plan& plan, const Model& model, const Buffers& buffers,
              const ParameterStore& store, kernels::Stream* stream);

// Buffers::dora.norm and .factor from the adapters as they are now. Once per update, before the
// first forward pass. Uses Buffers::scratch; launches only.
void UpdateDoraFactors(const Model& model, const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_DORA_H_
