#include "controller/api/operations.h"

namespace coxswain::api {

void Pause(Context& context, const v1::PauseRequest& request, Reply<v1::Job> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  if (const absl::Status status = (*job)->Pause(); !status.ok()) {
    reply(status);
    return;
  }
  reply((*job)->job());
}

}  // namespace coxswain::api
