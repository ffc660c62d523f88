// A job as lists have it.
#ifndef COXSWAIN_CONTROLLER_API_LISTED_JOB_H_
#define COXSWAIN_CONTROLLER_API_LISTED_JOB_H_

#include "coxswain/v1/job.pb.h"

namespace coxswain::api {

// All of `job` but its texts, `yaml` and `effective_json`: megabytes, which nobody reads in a list,
// are not even copied.
v1::Job ListedJob(const v1::Job& job);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_LISTED_JOB_H_
