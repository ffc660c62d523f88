// The blocks of a plan as messages: an op is its fields, by type.
#ifndef COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_BYTES_H_
#define COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_BYTES_H_

#include "absl/status/statusor.h"
#include "common/model/block.h"
#include "coxswain/v1/plan.pb.h"

namespace coxswain::plan {

void ArchitectureToProto(const model::Architecture& model, v1::Architecture* out);

// InvalidArgument: an op of an unknown kind, or with fewer or more fields than its kind has.
// Whether the ops fit together, architecture_checks.h says.
absl::StatusOr<model::Architecture> ArchitectureFromProto(const v1::Architecture& in);

}  // namespace coxswain::plan

#endif  // COXSWAIN_COMMON_PLAN_CHECKS_ARCHITECTURE_BYTES_H_
