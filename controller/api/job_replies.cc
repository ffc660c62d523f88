#include "controller/api/job_replies.h"

#include <google/protobuf/util/field_mask_util.h>

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

namespace {

using google::protobuf::FieldMask;
using google::protobuf::util::FieldMaskUtil;

FieldMask ListedFields() {
  const FieldMask all = FieldMaskUtil::GetFieldMaskForAllFields<v1::Job>();
  FieldMask texts, listed;
  texts.add_paths("yaml");
  texts.add_paths("effective_json");
  FieldMaskUtil::Subtract<v1::Job>(all, texts, &listed);
  return listed;
}

}  // namespace

v1::Job ListedJob(const v1::Job& job) {
  static const FieldMask kListed = ListedFields();
  v1::Job listed;
  FieldMaskUtil::MergeMessageTo(job, kListed, FieldMaskUtil::MergeOptions(), &listed);
  return listed;
}

}  // namespace coxswain::api
