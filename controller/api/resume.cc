#include "controller/api/operations.h"

namespace coxswain::api {

void Resume(Context& context, const v1::ResumeRequest& request, Reply<v1::Job> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  if (const absl::Status status = (*job)->Resume(request.steps()); !status.ok()) {
    reply(status);
    return;
  }
  reply((*job)->job());
}

}  // namespace coxswain::api
