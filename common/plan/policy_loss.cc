#include "common/plan/policy_loss.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace coxswain::plan {
namespace {

// In the order of the kernel's enums.
using Names = std::vector<std::string>;

const Names& Objectives() {
  static const Names kNames = {"importance", "clip", "cispo"};
  return kNames;
}

const Names& Normalisers() {
  static const Names kNames = {"tokens", "sequences", "constant"};
  return kNames;
}

template <typename Enum>
Enum Named(const Names& names, const std::string& name) {
  return static_cast<Enum>(
      std::distance(names.begin(), std::find(names.begin(), names.end(), name)));
}

absl::Status OneOf(const char* field, const std::string& value, const Names& names) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "policy_loss.", field, " is \"", value, "\", must be one of ", absl::StrJoin(names, ", ")));
}

// A number that `read` says the objective has; else it is 0.
absl::Status AtLeast0(const PolicyLoss& loss, const char* field, double value, bool read) {
  if (std::isfinite(value) && (read ? value >= 0 : value == 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("policy_loss.", field, " is ", value, " of ",
                                                 loss.objective, ", must be ",
                                                 read ? "finite and at least 0" : "0"));
}

}  // namespace

kernels::PolicyLossSpec SpecOf(const PolicyLoss& loss) {
  return {.objective = Named<kernels::PolicyObjective>(Objectives(), loss.objective),
          .normaliser = Named<kernels::PolicyNormaliser>(Normalisers(), loss.normaliser),
          .sequence_ratio = loss.ratio == "sequence",
          .epsilon_low = loss.epsilon_low,
          .epsilon_high = loss.epsilon_high,
          .delta = loss.delta,
          .kl_weight = loss.kl_weight};
}

absl::Status CheckPolicyLoss(const PolicyLoss& loss) {
  if (!loss.any()) return absl::OkStatus();
  RETURN_IF_ERROR(OneOf("objective", loss.objective, Objectives()));
  RETURN_IF_ERROR(OneOf("ratio", loss.ratio, {"token", "sequence"}));
  RETURN_IF_ERROR(OneOf("normaliser", loss.normaliser, Normalisers()));
  const bool clip = loss.objective == "clip", cispo = loss.objective == "cispo";
  RETURN_IF_ERROR(AtLeast0(loss, "epsilon_low", loss.epsilon_low, clip));
  RETURN_IF_ERROR(AtLeast0(loss, "epsilon_high", loss.epsilon_high, clip || cispo));
  RETURN_IF_ERROR(AtLeast0(loss, "delta", loss.delta, clip));
  RETURN_IF_ERROR(AtLeast0(loss, "kl_weight", loss.kl_weight, true));
  if (!cispo || loss.epsilon_high > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "policy_loss.epsilon_high is 0 of cispo, which bounds the ratio: must be above 0");
}

}  // namespace coxswain::plan
