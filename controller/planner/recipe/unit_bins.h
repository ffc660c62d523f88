// Packs units: documents that stay together and in order.
#ifndef COXSWAIN_CONTROLLER_PLANNER_RECIPE_UNIT_BINS_H_
#define COXSWAIN_CONTROLLER_PLANNER_RECIPE_UNIT_BINS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"
#include "controller/data/packing/packing.h"

namespace coxswain::planner {

// As data::PackDocuments with the capacity of the job's bins, but documents
// [u of_unit, (u + 1) of_unit) are dealt as one: shuffled, counted and placed together, in this
// order. InvalidArgument: also when the documents make no whole number of units, or a bin may not
// hold the documents of one.
absl::StatusOr<data::Bins> PackUnits(std::span<const int32_t> lengths, int64_t of_unit,
                                     const config::JobSpec& job, int64_t pass,
                                     const data::Cancelled& cancelled);

// In the order of the documents: units fill a bin until the next one does not fit. Errors as
// PackUnits.
absl::StatusOr<data::Bins> PackUnitsInOrder(std::span<const int32_t> lengths, int64_t of_unit,
                                            const config::JobSpec& job);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_RECIPE_UNIT_BINS_H_
