#include "controller/api/operations.h"

namespace coxswain::api {

void Delete(Context& context, const v1::DeleteRequest& request, Reply<v1::DeleteResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  const std::string id = (*job)->job().id();
  if (const absl::Status status = context.jobs->Delete(id); !status.ok()) {
    reply(status);
    return;
  }
  context.events->Notify({id});
  reply(v1::DeleteResponse());
}

}  // namespace coxswain::api
