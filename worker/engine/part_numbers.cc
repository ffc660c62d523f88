#include "worker/engine/part_numbers.h"

#include "kernels/checksum.h"
#include "worker/engine/optimizer.h"

namespace coxswain::engine {

void LaunchPartNorms(const ParameterLayout& layout, const std::vector<Part>& parts,
                     const Buffers& buffers, kernels::Stream* stream) {
  int64_t first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    TensorRange range{first, 0, 0};
    for (size_t i : parts[p].parameters) {
      const int64_t elements = layout.owned[i].count();
      if (elements > 0) ++range.count;
      range.chunks += kernels::TensorChunks(elements);
    }
    NormOf(buffers, range, &buffers.verification[p].norm, stream);
    first += range.count;
  }
}

void LaunchPartValues(const ParameterStore& store, const std::vector<Part>& parts,
                      const Buffers& buffers, kernels::Stream* stream) {
  for (size_t p = 0; p < parts.size(); ++p) {
    PartNumbers* numbers = &buffers.verification[p];
    kernels::SetMemory(&numbers->checksum, 0, sizeof(numbers->checksum), stream);
    kernels::SetMemory(&numbers->all_zero, 1, sizeof(numbers->all_zero), stream);
    for (size_t i : parts[p].parameters) {
      const Values values = store.Trained(i);
      kernels::Checksum({values.dtype, values.elements, values.data, &numbers->checksum}, stream);
      kernels::AllZero({values.dtype, values.elements, values.data, &numbers->all_zero}, stream);
    }
  }
}

}  // namespace coxswain::engine
