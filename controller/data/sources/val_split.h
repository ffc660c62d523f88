// Decides which training records are held back for evaluation (val_set_size).
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCES_VAL_SPLIT_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCES_VAL_SPLIT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/cancelled.h"
#include "controller/data/sampling.h"

namespace coxswain::data {

class ValSplit {
 public:
  // val_set_size < 1 holds back each record with that probability. A count holds back the records
  // with the smallest draws. That reads the datasets once, with O(count) memory. InvalidArgument:
  // the count is not below the number of records. Cancelled.
  static absl::StatusOr<ValSplit> Create(const config::JobSpec& job,
                                         const Cancelled& cancelled = {});

  bool HoldsBack(RecordId record) const;

 private:
  uint64_t seed_ = 0;
  bool any_ = false;
  // The largest draw that is held back, and the last record with that draw that is held back.
  uint64_t last_draw_ = 0;
  RecordId last_;
};

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCES_VAL_SPLIT_H_
