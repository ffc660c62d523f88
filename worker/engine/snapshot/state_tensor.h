// A state of the optimizer as a tensor of a checkpoint (common/checkpoint/checkpoint_tensors.h).
#ifndef COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_TENSOR_H_
#define COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_TENSOR_H_

#include <cstdint>
#include <vector>

#include "common/element_type.h"
#include "common/model/parameter.h"
#include "common/plan/optimizer_states.h"
#include "common/plan/storage.h"

namespace coxswain::engine {

// Codes of 8 bits are U8.
ElementType FileDType(plan::Storage storage);

// The shape for the whole parameter: its own shape in a file, or [elements of the state] if several
// elements of the parameter share one.
std::vector<int64_t> StateShape(const plan::OptimizerState& state,
                                const model::Parameter& parameter);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_SNAPSHOT_STATE_TENSOR_H_
