// A small model for tests of plans.
#ifndef COXSWAIN_TESTS_COMMON_PLAN_TWO_LAYERS_H_
#define COXSWAIN_TESTS_COMMON_PLAN_TWO_LAYERS_H_

#include "common/model/family.h"
#include "common/model/parameter_table.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Two layers of four linears, 32 and 48 wide, that one rank trains in full.
inline Plan TwoLayers() {
  Plan plan;
  model::ModelConfig& config = plan.model;
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 2;
  config.num_heads = 2;
  config.num_kv_heads = 1;
  config.head_dim = 16;
  config.layer_windows = {0, 0};
  plan.architecture = model::ArchitectureOf(config);
  plan.parameters = model::BaseParameterTable(plan.architecture);
  for (model::Parameter& p : plan.parameters) p.group = 0;
  plan.groups = {{.name = "weights", .lr_scale = 1.0}};
  return plan;
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_TESTS_COMMON_PLAN_TWO_LAYERS_H_
