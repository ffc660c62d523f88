// The bytes of a plan: what travels, and whose hash fences carry.
#ifndef COXSWAIN_COMMON_PLAN_CHECKS_PLAN_BYTES_H_
#define COXSWAIN_COMMON_PLAN_CHECKS_PLAN_BYTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"

namespace coxswain::plan {

// Deterministic serialised form and its inverse. Parse: InvalidArgument on garbage, an unknown
// field, or a value outside its range.
std::string SerializePlan(const Plan& plan);
absl::StatusOr<Plan> ParsePlan(const std::string& bytes);

// SHA-256 of SerializePlan(plan), 32 bytes.
std::string PlanHash(const std::string& plan_bytes);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_CHECKS_PLAN_BYTES_H_
