// Launches that compute Buffers::verification: norm, checksum and zeroness of this rank's pieces of
// each group.
#ifndef COXSWAIN_WORKER_ENGINE_GROUP_STATISTICS_H_
#define COXSWAIN_WORKER_ENGINE_GROUP_STATISTICS_H_

#include <vector>

#include "common/plan/plan.h"
#include "worker/engine/buffers.h"
#include "worker/engine/parameter_store.h"
#include "worker/engine/verified_groups.h"

namespace coxswain::engine {

// Computes norms of the tensors that Buffers::norm_tensors names now; those of gradients as they
// are in the stream.
void LaunchGroupNorms(const ParameterLayout& layout, const std::vector<VerifiedGroup>& groups,
                      const Buffers& buffers, kernels::Stream* stream);

// Computes checksum and all_zero of the trained values.
void LaunchGroupValues(const ParameterStore& store, const std::vector<VerifiedGroup>& groups,
                       const Buffers& buffers, kernels::Stream* stream);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_GROUP_STATISTICS_H_
