// Adapters of experts whose file holds the linears of every expert by itself, as vLLM and PEFT
// before transformers 5 write them.
#ifndef COXSWAIN_WORKER_ENGINE_MEMORY_EXPERT_ADAPTERS_H_
#define COXSWAIN_WORKER_ENGINE_MEMORY_EXPERT_ADAPTERS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/safetensors/safetensors.h"
#include "common/plan/plan.h"

namespace coxswain::engine {

// Whether `adapter`, an A or a B of a stack, lies so in `file`.
bool LiesByExpert(const plan::Plan& plan, const model::Parameter& adapter,
                  const SafetensorsFile& file);

// All of its elements in the order of memory: A [experts, rank, in], B [experts, out, rank]. The
// names that were read join `known`. InvalidArgument names a tensor that is missing, has another
// shape, or is the A of a linear of which another of the same stack has another A.
absl::StatusOr<std::vector<float>> ReadByExpert(const plan::Plan& plan,
                                                const model::Parameter& adapter,
                                                const SafetensorsFile& file,
                                                std::set<std::string>* known);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_MEMORY_EXPERT_ADAPTERS_H_
