// Rows of the store, from what a running job holds.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_STORE_ROWS_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_STORE_ROWS_H_

#include <cstdint>
#include <string>

#include "controller/checkpoint/run_state.h"
#include "controller/gang/gang.h"
#include "controller/store/store.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::driver {

// The row of the gang as it is now. EpochRow says which fields only a formed gang has.
store::EpochRow EpochRowOf(const gang::Gang& gang);

store::EvalRow EvalRowOf(const gang::Gang& gang, const checkpoint::EvalPoint& point);

// The row of a checkpoint that gang `epoch` of `job` made.
store::CheckpointRow CheckpointRowOf(const std::string& job, uint64_t epoch,
                                     const v1::CheckpointInfo& info);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_STORE_ROWS_H_
