// Loads the matrices of experts, which the files of a checkpoint hold apart from one another.
#ifndef COXSWAIN_WORKER_ENGINE_STACKED_WEIGHTS_H_
#define COXSWAIN_WORKER_ENGINE_STACKED_WEIGHTS_H_

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/files/weight_files.h"
#include "common/model/stacked_files.h"
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

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STACKED_WEIGHTS_H_
