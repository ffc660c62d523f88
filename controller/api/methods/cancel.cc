#include "controller/api/operations.h"
#include "controller/api/reply_job.h"

namespace coxswain::api {

void Cancel(Context& context, const v1::CancelRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(),
      [&](driver::JobDriver& job) { return job.Cancel(request.checkpoint()); }, reply);
}

}  // namespace coxswain::api
