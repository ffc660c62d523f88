// Outputs of packed linears that DoRA scales. The planner gives each a row of the buffer table, the
// engine binds it.
#ifndef COXSWAIN_COMMON_PLAN_DORA_OUTPUTS_H_
#define COXSWAIN_COMMON_PLAN_DORA_OUTPUTS_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "common/plan/plan.h"

namespace coxswain::plan {

struct DoraOutput {
  int32_t layer = 0;
  const char* row =
      nullptr;          // "layer{layer}.{row}": the output before the scale, [tokens, columns]
  int64_t columns = 0;  // of the whole pack, also where only some of its linears are adapted
};

// The outputs are ordered by layer, then qkv, o, gate and up, down; a pack without a magnitude is
// left out.
inline std::vector<DoraOutput> DoraOutputs(const Plan& plan) {
  const model::ModelConfig& m = plan.model;
  const struct {
    const char* row;
    int64_t columns;
    std::vector<model::Role> linears;
  } packs[] = {
      {"qkv_u",
       (m.num_heads + 2 * m.num_kv_heads) * m.head_dim,
       {model::Role::kQ, model::Role::kK, model::Role::kV}},
      {"o_u", m.hidden_size, {model::Role::kO}},
      {"gate_up_u", 2 * m.intermediate_size, {model::Role::kGate, model::Role::kUp}},
      {"down_u", m.hidden_size, {model::Role::kDown}},
  };
  std::set<std::pair<model::Role, int32_t>> roles;
  for (const model::Parameter& parameter : plan.parameters) {
    roles.insert({parameter.role, parameter.layer});
  }
  std::vector<DoraOutput> outputs;
  for (int32_t layer = 0; layer < m.num_layers; ++layer) {
    for (const auto& pack : packs) {
      bool scaled = false;
      for (const model::Role linear : pack.linears) {
        scaled = scaled || roles.count({model::LoraMagnitude(linear), layer}) != 0;
      }
      if (scaled) outputs.push_back({layer, pack.row, pack.columns});
    }
  }
  return outputs;
}

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_DORA_OUTPUTS_H_
