// DoRA's values per output column of the adapted linears, in Buffers::dora.
#ifndef COXSWAIN_WORKER_ENGINE_OPS_DORA_H_
#define COXSWAIN_WORKER_ENGINE_OPS_DORA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/engine/memory/buffers.h"
#include "worker/engine/memory/model.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/ops/sweep.h"

namespace coxswain::engine {

// Fills Buffers::dora.squares from the frozen base weights. Without an adapter file it also fills
// the magnitudes: with B zero they are the norms of the rows. It waits for the device. Under ZeRO 3
// it reads the whole base weights again, because a rank keeps only parts of rows.
// Source: peft 0.21 lora/dora.py, DoraLinearLayer.update_layer.
absl::Status InitDora(const plan::Plan& plan, const Model& model, const Buffers& buffers,
                      const ParameterStore& store, kernels::Stream* stream);

// Computes Buffers::dora.norm and .factor of a block from the present adapters. Call it in the
// first forward after an update. It uses Buffers::scratch and only launches.
void UpdateDoraFactors(const Sweep& sweep, int64_t layer);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_OPS_DORA_H_
