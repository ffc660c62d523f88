// The progress of a job as users see it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_REPORT_PROGRESS_H_
#define COXSWAIN_CONTROLLER_DRIVER_REPORT_PROGRESS_H_

#include "controller/checkpoint/run_state.h"
#include "controller/driver/records/job_record.h"
#include "controller/driver/training/curriculum.h"
#include "controller/runtime/metrics.h"

namespace coxswain::driver {

// `run` is where the job stands, in its progress and its metrics.
void ShowProgress(const checkpoint::RunState& run, const Curriculum& curriculum, JobRecord* record,
                  Metrics* metrics);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_REPORT_PROGRESS_H_
