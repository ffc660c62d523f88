// Adapters of stacks of experts as adapters of the linears of single experts, which vLLM and PEFT
// before transformers 5 read: `...mlp.experts.3.up_proj.lora_A.weight`.
#ifndef COXSWAIN_CONTROLLER_EXPORT_EXPERT_LINEARS_H_
#define COXSWAIN_CONTROLLER_EXPORT_EXPERT_LINEARS_H_

#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_tensors.h"
#include "common/files/safetensors/safetensors_writer.h"
#include "common/plan/plan.h"

namespace coxswain::exports {

// Appends the A or the B of each expert's linears that `adapter` stands for, float32. Linears that
// share A each get it. `master` and `plan` must outlive `sources`.
void AppendByExpert(const plan::Plan& plan, const model::Parameter& adapter,
                    const PiecedTensor& master, std::vector<TensorSource>* sources);

// The names of these modules of all blocks and experts, both as "*":
// "model.layers.*.mlp.experts.*.up_proj".
std::set<std::string> LinearsByExpert(const plan::Plan& plan);

}  // namespace coxswain::exports

#endif  // COXSWAIN_CONTROLLER_EXPORT_EXPERT_LINEARS_H_
