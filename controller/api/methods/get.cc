#include "controller/api/operations.h"
#include "controller/api/reply_job.h"

namespace coxswain::api {

void Get(Context& context, const v1::GetRequest& request, Reply<v1::Job> reply) {
  ReplyJob(context.jobs->Find(request.job()), reply);
}

}  // namespace coxswain::api
