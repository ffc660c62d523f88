#include "worker/engine/group_statistics.h"

#include "kernels/checksum.h"
#include "worker/engine/optimizer.h"

namespace coxswain::engine {

void LaunchGroupNorms(const ParameterLayout& layout, const std::vector<VerifiedGroup>& groups,
                      const Buffers& buffers, kernels::Stream* stream) {
  int64_t first = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    TensorRange range{first, 0, 0};
    for (size_t i : groups[g].parameters) {
      const int64_t elements = layout.owned[i].count();
      if (elements > 0) ++range.count;
      range.chunks += kernels::TensorChunks(elements);
    }
    NormOf(buffers, range, &buffers.verification[g].norm, stream);
    first += range.count;
  }
}

void LaunchGroupValues(const ParameterStore& store, const std::vector<VerifiedGroup>& groups,
                       const Buffers& buffers, kernels::Stream* stream) {
  for (size_t g = 0; g < groups.size(); ++g) {
    GroupStatistics* statistics = &buffers.verification[g];
    kernels::SetMemory(&statistics->checksum, 0, sizeof(statistics->checksum), stream);
    kernels::SetMemory(&statistics->all_zero, 1, sizeof(statistics->all_zero), stream);
    for (size_t i : groups[g].parameters) {
      const Values values = store.Trained(i);
      kernels::Checksum({values.dtype, values.elements, values.data, &statistics->checksum},
                        stream);
      kernels::AllZero({values.dtype, values.elements, values.data, &statistics->all_zero}, stream);
    }
  }
}

}  // namespace coxswain::engine
