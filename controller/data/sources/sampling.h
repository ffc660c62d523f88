// Which records are trained, how often, and which are held back.
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCES_SAMPLING_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCES_SAMPLING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/early_end.h"

namespace coxswain::data {

// Decides how many copies of a record are trained, and which records are held back. Pure functions
// of (seed, source, record), so that threads and order of reading do not matter.

// A record: `index` counts from 0 over the file, bad records included.
struct RecordId {
  int32_t source = 0;  // position in `datasets`
  int64_t index = 0;
};

// floor(weight) copies, and one more with probability weight - floor(weight).
int64_t CopiesOf(uint64_t seed, RecordId record, double weight);

// Uniform 64 bits. Records with the smallest values are held back for evaluation.
uint64_t HoldBackDraw(uint64_t seed, RecordId record);

// Decides which training records are held back for evaluation (val_set_size).
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

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCES_SAMPLING_H_
