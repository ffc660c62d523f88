#include "controller/api/operations.h"
#include "controller/api/reply_job.h"

namespace coxswain::api {

void Resume(Context& context, const v1::ResumeRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(), [&](driver::JobDriver& job) { return job.Resume(request.steps()); },
      reply);
}

}  // namespace coxswain::api
