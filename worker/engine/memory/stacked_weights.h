// Loads the matrices of experts, which the files of a checkpoint hold apart from one another.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_STACKED_WEIGHTS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_STACKED_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/weights/weight_files.h"
#include "common/model/files/stacked_files.h"
#include "common/plan/plan.h"
#include "common/plan/shard_map.h"

namespace coxswain::engine {

// Calls use(part, values) for the elements `range` of parameter i, a stack of matrices, one matrix
// after the other; parts are elements of the parameter. Files may have matrices in blocks with
// scales, which are read as what they stand for. Adds the names of all its tensors to `known`.
// InvalidArgument names a tensor that is missing or has another shape.
absl::Status ReadStack(const plan::Plan& plan, size_t i,
                       const std::vector<model::StackedFile>& stack, const WeightFiles& files,
                       plan::Range range, std::set<std::string>* known,
                       const std::function<void(plan::Range part, const float* values)>& use);

// Codes and scales of a stack in MXFP4 (kernels/quantize/mxfp4.h), rows as in memory: [rows, cols /
// 2] and [rows, cols / 32].
struct PackedStack {
  std::vector<uint8_t> codes, scales;
};
// Parameter i with the bits of its files. None: they do not have it in MXFP4. Else as ReadStack.
absl::StatusOr<std::optional<PackedStack>> ReadPackedStack(
    const plan::Plan& plan, size_t i, const std::vector<model::StackedFile>& stack,
    const WeightFiles& files, std::set<std::string>* known);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_STACKED_WEIGHTS_H_
