// Replies that are a job.
#ifndef COXSWAIN_CONTROLLER_API_REPLY_JOB_H_
#define COXSWAIN_CONTROLLER_API_REPLY_JOB_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "controller/api/context.h"

namespace coxswain::api {

// The job as it is, or the error.
void ReplyJob(const absl::StatusOr<driver::JobDriver*>& job, const Reply<v1::Job>& reply);

// The job named `name` as it is after `change`, or the first error.
void ReplyJob(Context& context, const std::string& name,
              absl::FunctionRef<absl::Status(driver::JobDriver&)> change,
              const Reply<v1::Job>& reply);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_REPLY_JOB_H_
