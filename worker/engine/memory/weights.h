// Fills the weight buffer from files or from the plan's seed. Walks the parameter table and reads
// the elements of ParameterStore::Loaded.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_WEIGHTS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/memory/parameter_store.h"

namespace coxswain::engine {

// Base tensors of plan.model_path but for a new head, which plan.seed draws, or by init "random":
// norms 1, biases 0, matrices normal(0, 0.02) by Philox counter (element / 4, role, layer + 1).
// NotFound: no weight files. InvalidArgument names directory, tensor and both shapes: a tensor is
// missing, has another shape, is not floating point, or is unknown to the model
// (rotary_emb.inv_freq and the head of a tied model are ignored).
absl::Status LoadBaseWeights(const plan::Plan& plan, const ParameterStore& store);

// Loads all base tensors of one block into the memory that sweeps read. Its slot must be free. Call
// it after LoadBaseWeights.
absl::Status LoadWholeBlock(const plan::Plan& plan, int32_t layer, const ParameterStore& store);

// Adapter tensors of plan.lora.init_from/adapter_model.safetensors, checked in the same way.
// Without init_from, A is uniform in +-1/sqrt(in) (Kaiming, a = sqrt 5) by Philox and B is zero.
// InitDora (dora.h) sets magnitudes.
absl::Status LoadAdapter(const plan::Plan& plan, const ParameterStore& store);

// The shape of a parameter in a file: [rows] for norms, biases and magnitudes, else [rows, cols].
std::vector<int64_t> FileShape(const model::Parameter& parameter);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_WEIGHTS_H_
