// Decides how many copies of a record are trained, and which records are held back. Pure functions
// of (seed, source, record), so that threads and order of reading do not matter.
#ifndef COXSWAIN_CONTROLLER_DATA_SAMPLING_H_
#define COXSWAIN_CONTROLLER_DATA_SAMPLING_H_

#include <cstdint>

namespace coxswain::data {

// A record: `index` counts from 0 over the file, bad records included.
struct RecordId {
  int32_t source = 0;  // position in `datasets`
  int64_t index = 0;
};

// floor(weight) copies, and one more with probability weight - floor(weight).
int64_t CopiesOf(uint64_t seed, RecordId record, double weight);

// Uniform 64 bits. Records with the smallest values are held back for evaluation.
uint64_t HoldBackDraw(uint64_t seed, RecordId record);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SAMPLING_H_
