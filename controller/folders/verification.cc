#include "controller/folders/verification.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain {
namespace {

nlohmann::json Outcome(const Verification& verification) {
  if (!verification.verified) return {{"outcome", "skipped"}, {"reason", verification.reason}};
  return {{"outcome", "verified"},           {"records", verification.records},
          {"targets", verification.targets}, {"difference", verification.difference},
          {"bound", verification.bound},     {"bound_from", verification.bound_from},
          {"seconds", verification.seconds}};
}

}  // namespace

void AddVerification(const Verification& folder, const Verification& gguf,
                     nlohmann::json* manifest) {
  if (!folder.artifact.empty()) (*manifest)["verification"] = Outcome(folder);
  if (!gguf.artifact.empty()) (*manifest)["verification"]["gguf"] = Outcome(gguf);
}

v1::Verification ToWire(const Verification& verification) {
  v1::Verification wire;
  wire.set_artifact(verification.artifact);
  wire.set_verified(verification.verified);
  wire.set_reason(verification.reason);
  wire.set_records(verification.records);
  wire.set_targets(verification.targets);
  wire.set_difference(verification.difference);
  wire.set_bound(verification.bound);
  wire.set_bound_from(verification.bound_from);
  wire.set_seconds(verification.seconds);
  return wire;
}

std::string VerificationText(const v1::Verification& verification) {
  if (!verification.verified()) {
    return absl::StrCat(verification.artifact(), " skipped: ", verification.reason());
  }
  return absl::StrCat(verification.artifact(), " verified on ", verification.records(),
                      verification.records() == 1 ? " record (" : " records (",
                      verification.targets(), " targets): largest difference ",
                      verification.difference(), ", bound ", verification.bound(), ", ",
                      verification.bound_from());
}

}  // namespace coxswain
