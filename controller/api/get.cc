#include "controller/api/operations.h"

namespace coxswain::api {

void Get(Context& context, const v1::GetRequest& request, Reply<v1::Job> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  reply((*job)->job());
}

}  // namespace coxswain::api
