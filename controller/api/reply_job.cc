#include "controller/api/reply_job.h"

namespace coxswain::api {

void ReplyJob(const absl::StatusOr<driver::JobDriver*>& job, const Reply<v1::Job>& reply) {
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  reply((*job)->job());
}

void ReplyJob(Context& context, const std::string& name,
              absl::FunctionRef<absl::Status(driver::JobDriver&)> change,
              const Reply<v1::Job>& reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(name);
  if (job.ok()) {
    if (const absl::Status status = change(**job); !status.ok()) job = status;
  }
  ReplyJob(job, reply);
}

}  // namespace coxswain::api
