// The mesh of a plan, where the job leaves it open.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MESH_H_
#define COXSWAIN_CONTROLLER_PLANNER_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/plan/plan.h"
#include "controller/planner/layout.h"

namespace coxswain::planner {

// Fills replicate, shard and what ChooseLayout fills, with its errors. A mesh that the job sets is
// kept. Else the ranks share one replica; on several hosts of equally many ranks (at least 2) each
// host holds a replica, so that gathers and reduce-scatters stay inside it, where that costs
// neither number formats nor recomputation nor micro-batch. `ranks_of_hosts`: in order of rank;
// empty: one host. Returns a sentence that says why, empty where hosts had no say.
absl::StatusOr<std::string> ChooseMesh(const config::JobSpec& job, const LayoutLimits& limits,
                                       const std::vector<int32_t>& ranks_of_hosts,
                                       plan::Plan* plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MESH_H_
