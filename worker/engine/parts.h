// Trainable tensors sorted into parts: the tensors of one optimizer group, LoRA A, LoRA B and
// magnitudes of DoRA apart. A part is what self-verification looks at; its tensors are adjacent in
// Buffers::norm_tensors.
#ifndef COXSWAIN_WORKER_ENGINE_PARTS_H_
#define COXSWAIN_WORKER_ENGINE_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::engine {

struct Part {
  std::string name;  // of the group, with the kind of adapter matrix
  int32_t group = 0;
  bool lora_a = false, lora_b = false;
  std::vector<size_t> parameters;  // indices into the plan's table
};

// In order of group, then kind; every trainable parameter is in exactly one part.
std::vector<Part> MakeParts(const plan::Plan& plan);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_PARTS_H_
