// From a row of step_bench to the plan that its worker gets.
#ifndef COXSWAIN_BENCH_WORKER_ENGINE_STEP_PLAN_H_
#define COXSWAIN_BENCH_WORKER_ENGINE_STEP_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/worker/engine/step_rows.h"
#include "controller/data/prepare/prepare.h"
#include "controller/planner/planner.h"
#include "controller/planner/recipe/recipe.h"

namespace coxswain::bench {

struct PlannedRow {
  data::PreparedData data;
  std::unique_ptr<planner::Recipe> recipe;
  planner::PlannedJob planned;
};

// Parses the row's job, writes its model and documents into `directory` and plans `steps` steps for
// `worker`. Errors are those of the steps of a submission.
absl::StatusOr<PlannedRow> PlanRow(const Row& row, const std::string& directory, int64_t steps,
                                   const planner::WorkerResources& worker);

}  // namespace coxswain::bench

#endif  // COXSWAIN_BENCH_WORKER_ENGINE_STEP_PLAN_H_
