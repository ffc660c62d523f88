#include "controller/folders/verification.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain {

void AddVerification(const Verification& verification, nlohmann::json* manifest) {
  if (verification.artifact.empty()) return;
  nlohmann::json& out = (*manifest)["verification"];
  if (!verification.verified) {
    out = {{"outcome", "skipped"}, {"reason", verification.reason}};
    return;
  }
  out = {{"outcome", "verified"},           {"records", verification.records},
         {"targets", verification.targets}, {"difference", verification.difference},
         {"bound", verification.bound},     {"bound_from", verification.bound_from},
         {"seconds", verification.seconds}};
}

std::string VerificationText(const Verification& verification) {
  if (!verification.verified) {
    return absl::StrCat(verification.artifact, " skipped: ", verification.reason);
  }
  return absl::StrCat(verification.artifact, " verified on ", verification.records,
                      verification.records == 1 ? " record (" : " records (", verification.targets,
                      " targets): largest difference ", verification.difference, ", bound ",
                      verification.bound, ", ", verification.bound_from);
}

}  // namespace coxswain
