// Launches that compute Buffers::verification: norm, checksum and zeroness of this rank's pieces of
// each part.
#ifndef COXSWAIN_WORKER_ENGINE_PART_NUMBERS_H_
#define COXSWAIN_WORKER_ENGINE_PART_NUMBERS_H_

#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/parameter_store.h"
#include "worker/engine/parts.h"

namespace coxswain::engine {

// Norms of the tensors that Buffers::norm_tensors names now: of gradients as they are in the
// stream.
void LaunchPartNorms(const ParameterLayout& layout, const std::vector<Part>& parts,
                     const Buffers& buffers, kernels::Stream* stream);

// Checksum and all_zero of the trained values.
void LaunchPartValues(const ParameterStore& store, const std::vector<Part>& parts,
                      const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PART_NUMBERS_H_
