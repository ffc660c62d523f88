// What self-verification looks at one by one: trainable tensors of one group of the plan, LoRA A,
// LoRA B and magnitudes of DoRA apart. The tensors of one are adjacent in Buffers::norm_tensors.
#ifndef COXSWAIN_WORKER_ENGINE_VERIFIED_GROUPS_H_
#define COXSWAIN_WORKER_ENGINE_VERIFIED_GROUPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::engine {

struct VerifiedGroup {
  std::string name;  // of the plan's group, with the kind of adapter matrix
  int32_t plan_group = 0;
  // Of an embedding A is what begins at zero: there the two stand for each other.
  bool lora_a = false, lora_b = false;
  std::vector<size_t> parameters;  // indices into the plan's table
};

// The groups are in order of the plan's group, then kind; every trainable parameter is in exactly
// one.
std::vector<VerifiedGroup> MakeVerifiedGroups(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_VERIFIED_GROUPS_H_
