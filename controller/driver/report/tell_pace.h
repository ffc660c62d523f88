// How the ranks of a gang keep step, as its job's users and metrics see it.
#ifndef COXSWAIN_CONTROLLER_DRIVER_REPORT_TELL_PACE_H_
#define COXSWAIN_CONTROLLER_DRIVER_REPORT_TELL_PACE_H_

#include "controller/driver/records/job_record.h"
#include "controller/gang/gang_session.h"
#include "controller/runtime/metrics.h"

namespace coxswain::driver {

// After a step. A rank that holds the others up is told of, once, and never killed.
void TellPace(Metrics* metrics, JobRecord* record, gang::GangSession* session);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_REPORT_TELL_PACE_H_
