#include "common/plan/gradient_sum.h"

#include <algorithm>

#include "common/plan/extents.h"
#include "common/plan/fp8_linears.h"
#include "common/plan/shard_map.h"
#include "common/plan/storage.h"

namespace coxswain::plan {
namespace {

// Products of a micro-step that add to the gradient of the head. A cut head has one.
int64_t HeadChunks(const Plan& plan) {
  if (plan.lm_head_panel_bytes > 0) return 1;
  return CeilDiv(plan.micro_batch_bins * plan.sequence_len, plan.lm_head_chunk_tokens);
}

// A product in FP8 has no ranges of rows: scales of tiles do not lie by row.
int64_t LargestTermInFp8(const Plan& plan) {
  int64_t elements = 0;
  VisitFp8Linears(plan, [&elements](const auto& linear, int64_t /*layer*/) {
    elements = std::max(elements, linear.in_features * linear.out_features);
  });
  return StorageBytes(Storage::kFloat32, elements);
}

}  // namespace

const char* GradientSumName(GradientSum sum) {
  constexpr const char* kNames[] = {"nearest", "stochastic", "compensated"};
  return kNames[static_cast<size_t>(sum)];
}

bool IsSummedInBfloat16(const Plan& plan, const model::Parameter& parameter) {
  return parameter.trainable() && StorageOf(plan, parameter).gradient == Storage::kBfloat16 &&
         !HasGradientSlot(plan, parameter.unit);
}

int64_t GradientTerms(const Plan& plan, int64_t micro_steps) {
  int64_t most = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!IsSummedInBfloat16(plan, parameter)) continue;
    most = std::max(most, micro_steps * (model::IsHead(parameter) ? HeadChunks(plan) : 1));
  }
  return most;
}

int64_t GradientTermBytes(const Plan& plan) {
  if (plan.gradient_sum == GradientSum::kNearest) return 0;
  int64_t bytes = 0;
  for (const model::Parameter& parameter : plan.parameters) {
    if (!IsSummedInBfloat16(plan, parameter) || !IsWrittenByProduct(plan, parameter)) continue;
    const int64_t all = StorageBytes(Storage::kFloat32, parameter.elements());
    const int64_t experts = parameter.kind == model::Kind::kExperts ? parameter.batch : 1;
    const int64_t least = experts > 1 ? all / experts : 0;
    bytes = std::max({bytes, least, std::min(all, kGradientTermBytes)});
  }
  return bytes == 0 ? 0 : std::max(bytes, LargestTermInFp8(plan));
}

}  // namespace coxswain::plan
