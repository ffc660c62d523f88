// Replies that are a job, and a job as lists have it.
#ifndef COXSWAIN_CONTROLLER_API_JOB_REPLIES_H_
#define COXSWAIN_CONTROLLER_API_JOB_REPLIES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "controller/api/context.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::api {

// Replies that are a job.

// The job as it is, or the error.
void ReplyJob(const absl::StatusOr<driver::JobDriver*>& job, const Reply<v1::Job>& reply);

// The job named `name` as it is after `change`, or the first error.
void ReplyJob(Context& context, const std::string& name,
              absl::FunctionRef<absl::Status(driver::JobDriver&)> change,
              const Reply<v1::Job>& reply);

// A job as lists have it.

// All of `job` but its texts, `yaml` and `effective_json`: megabytes, which nobody reads in a list,
// are not even copied.
v1::Job ListedJob(const v1::Job& job);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_JOB_REPLIES_H_
