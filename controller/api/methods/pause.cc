#include "controller/api/operations.h"
#include "controller/api/reply_job.h"

namespace coxswain::api {

void Pause(Context& context, const v1::PauseRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(), [](driver::JobDriver& job) { return job.Pause(); }, reply);
}

}  // namespace coxswain::api
