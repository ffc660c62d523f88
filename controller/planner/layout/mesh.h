// Chooses the mesh of a plan if the job does not set it.
#ifndef COXSWAIN_CONTROLLER_PLANNER_LAYOUT_MESH_H_
#define COXSWAIN_CONTROLLER_PLANNER_LAYOUT_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/planner/layout/layout.h"

namespace coxswain::planner {

// Fills replicate, shard and the fields of ChooseLayout, with its errors. A mesh that the job sets
// is kept. Otherwise all ranks share one replica. Several hosts with equally many ranks (at least
// 2) hold one replica each, so that gathers and reduce-scatters stay inside a host, unless that
// costs number formats, recomputation or micro-batch. `ranks_of_hosts`: ranks per host, in order of
// rank; empty: one host. Returns a sentence with the reason; empty when hosts had no influence.
absl::StatusOr<std::string> ChooseMesh(const config::JobSpec& job, const LayoutLimits& limits,
                                       const std::vector<int32_t>& ranks_of_hosts,
                                       plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_LAYOUT_MESH_H_
