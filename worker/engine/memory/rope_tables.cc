#include "worker/engine/memory/rope_tables.h"

#include <string>
#include <vector>

#include "common/plan/buffer_names.h"
#include "common/plan/extents.h"
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

kernels::RopeFrequencies FrequenciesOf(const plan::Plan& plan, const model::Rope& rope,
                                       bool long_documents) {
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
          .factors = long_documents ? rope.long_factors : rope.short_factors};
}

// One part behind the other.
void Append(const std::vector<float>& part, std::vector<float>* table) {
  table->insert(table->end(), part.begin(), part.end());
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
    std::vector<float> cos, sin, query_scale;
    const auto append = [&](bool long_documents, int64_t positions) {
      const kernels::RopeTable part =
          kernels::BuildRopeTable(FrequenciesOf(plan, ropes[i], long_documents), positions);
      Append(part.cos, &cos);
      Append(part.sin, &sin);
      if (ropes[i].query_scale_beta == 0) return;
      Append(kernels::BuildQueryScale(ropes[i].query_scale_beta, ropes[i].original_max_position,
                                      positions),
             &query_scale);
    };
    const int64_t long_row = plan::LongDocumentRow(plan);
    if (long_row > 0) append(/*long_documents=*/false, long_row);
    append(/*long_documents=*/long_row > 0, plan.sequence_len);
    Upload(cos, at(plan::buffers::kCosines), stream);
    Upload(sin, at(plan::buffers::kSines), stream);
    if (!query_scale.empty()) Upload(query_scale, at(plan::buffers::kQueryScales), stream);
  }
}

}  // namespace coxswain::engine
