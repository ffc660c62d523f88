#include "worker/engine/batches/policy_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace coxswain::engine {
namespace {

int64_t Capacity(const plan::Plan& plan, bool wanted) {
  return wanted ? plan::BatchExtents(plan).target_rows : 0;
}

void AppendRange(const std::vector<float>& values, size_t begin, int64_t count,
                 PinnedArray<float>* out) {
  if (values.empty()) return;
  for (int64_t i = 0; i < count; ++i) out->push_back(values[begin + static_cast<size_t>(i)]);
}

}  // namespace

absl::Status CheckPolicyRows(const plan::PolicyLoss& loss, const BinBatch& bins, bool scored) {
  const auto targets = static_cast<size_t>(
      std::count_if(bins.targets.begin(), bins.targets.end(), [](uint8_t t) { return t != 0; }));
  const size_t wanted = loss.any() && scored ? targets : 0;
  const size_t references = loss.has_kl() ? wanted : 0;
  if (bins.advantages.size() == wanted && bins.old_log_probs.size() == wanted &&
      bins.reference_log_probs.size() == references) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "bins: ", bins.advantages.size(), " advantages and ", bins.old_log_probs.size(),
      " old_log_probs, wanted ", wanted, " each, and ", bins.reference_log_probs.size(),
      " reference_log_probs, wanted ", references, ", for ", targets, " targets"));
}

PolicyRows::PolicyRows(const plan::Plan& plan)
    : old_logps_(Capacity(plan, plan.policy_loss.any())),
      advantages_(Capacity(plan, plan.policy_loss.any())),
      references_(Capacity(plan, plan.policy_loss.has_kl())) {}

void PolicyRows::Clear() {
  old_logps_.clear();
  advantages_.clear();
  references_.clear();
}

void PolicyRows::Append(const BinBatch& bins, size_t begin, int64_t count) {
  AppendRange(bins.old_log_probs, begin, count, &old_logps_);
  AppendRange(bins.advantages, begin, count, &advantages_);
  AppendRange(bins.reference_log_probs, begin, count, &references_);
}

void PolicyRows::CopyTo(const PolicyBuffers& buffers, kernels::Stream* stream) const {
  old_logps_.CopyTo(buffers.old_logps, stream);
  advantages_.CopyTo(buffers.advantages, stream);
  references_.CopyTo(buffers.references, stream);
}

}  // namespace coxswain::engine
