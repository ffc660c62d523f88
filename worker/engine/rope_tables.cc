#include "worker/engine/rope_tables.h"

#include <string>
#include <vector>

#include "common/plan/longest_document.h"
#include "kernels/rope.h"

namespace coxswain::engine {
namespace {

kernels::RopeScaling ScalingOf(const std::string& type) {
  if (type == "linear") return kernels::RopeScaling::kLinear;
  if (type == "llama3") return kernels::RopeScaling::kBands;
  if (type == "yarn") return kernels::RopeScaling::kYarn;
  if (type == "longrope") return kernels::RopeScaling::kLongRope;
  return kernels::RopeScaling::kNone;  // dynamic: the plan keeps to the original length
}

// longrope: the factors of short or long sequences, by the longest that the plan may hold.
kernels::RopeFrequencies FrequenciesOf(const plan::Plan& plan, const model::Rope& rope) {
  const bool fits = plan::LongestDocument(plan) <= rope.original_max_position;
  return {.rotated = plan.model.rotated_dim(),
          .theta = rope.theta,
          .scaling = ScalingOf(rope.type),
          .factor = rope.factor,
          .low_freq_factor = rope.low_freq_factor,
          .high_freq_factor = rope.high_freq_factor,
          .original_max_position = rope.original_max_position,
          .beta_fast = rope.beta_fast,
          .beta_slow = rope.beta_slow,
          .truncate = rope.truncate,
          .attention_factor = rope.attention_factor,
          .factors = fits ? rope.short_factors : rope.long_factors};
}

void Upload(const std::vector<float>& table, void* row, kernels::Stream* stream) {
  kernels::CopyMemory(row, table.data(), static_cast<int64_t>(table.size() * sizeof(float)),
                      stream);
  kernels::Synchronize(stream);
}

}  // namespace

void FillRopeTables(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream) {
  const std::vector<model::Rope> ropes = plan.model.ropes();
  for (size_t i = 0; i < ropes.size(); ++i) {
    const auto at = [&](const char* name) {
      return buffers.At(plan::RopeRow(static_cast<int64_t>(i), name));
    };
    const kernels::RopeTable table =
        kernels::BuildRopeTable(FrequenciesOf(plan, ropes[i]), plan.sequence_len);
    Upload(table.cos, at("cos"), stream);
    Upload(table.sin, at("sin"), stream);
    if (ropes[i].query_scale_beta == 0) continue;
    Upload(kernels::BuildQueryScale(ropes[i].query_scale_beta, ropes[i].original_max_position,
                                    plan.sequence_len),
           at("query_scale"), stream);
  }
}

}  // namespace coxswain::engine
