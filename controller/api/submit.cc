#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/job_parser.h"
#include "common/hash.h"
#include "common/ids.h"
#include "common/status_macros.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

std::string AdapterName(config::Adapter adapter) {
  return adapter == config::Adapter::kLora ? "lora" : "full";
}

std::string BodyHash(const v1::SubmitRequest& request) {
  const std::string paused = request.start_paused() ? "1" : "0";
  return Sha256(absl::StrCat(request.yaml().size(), "\n", request.yaml(), "\n",
                             request.yaml_path(), "\n", paused));
}

store::JobRow NewRow(Context& context, const v1::SubmitRequest& request,
                     const config::ParsedJob& parsed) {
  store::JobRow row;
  v1::Job& job = row.job;
  job.set_id(absl::StrCat(parsed.spec.name, "-", RandomHex(6)));
  job.set_name(parsed.spec.name);
  job.mutable_labels()->insert(parsed.spec.labels.begin(), parsed.spec.labels.end());
  job.set_state(request.start_paused() ? v1::JOB_STATE_PAUSED : v1::JOB_STATE_QUEUED);
  job.set_created_unix_ms(context.deps.loop->clock().UnixMs());
  job.set_yaml(request.yaml());
  job.set_effective_json(parsed.effective_json);
  job.set_base_model(parsed.spec.model_path);
  job.set_method(AdapterName(parsed.spec.adapter));
  job.set_workers(static_cast<int32_t>(parsed.spec.workers));
  job.set_priority(static_cast<int32_t>(parsed.spec.priority));
  job.set_version(1);
  row.base_dir = BaseDirectory(request.yaml_path());
  row.order = context.jobs->NextOrder();
  return row;
}

absl::StatusOr<v1::Job> Decide(Context& context, const v1::SubmitRequest& request) {
  const std::string body_hash = BodyHash(request);
  if (!request.idempotency_key().empty()) {
    ASSIGN_OR_RETURN(const std::optional<store::KeyRow> known,
                     context.deps.journal->store()->FindKey(request.idempotency_key()));
    if (known.has_value()) {
      if (known->body_hash != body_hash) {
        return absl::AlreadyExistsError(
            absl::StrCat("idempotency key '", request.idempotency_key(),
                         "' was used with another body, for job ", known->job));
      }
      ASSIGN_OR_RETURN(driver::JobDriver * job, context.jobs->Find(known->job));
      return job->job();
    }
  }
  const config::ParsedJob parsed =
      config::ParseJob(request.yaml(), BaseDirectory(request.yaml_path()));
  if (!parsed.errors.empty()) {
    std::string errors = config::FormatErrors(
        parsed.errors, request.yaml_path().empty() ? "job.yaml" : request.yaml_path());
    absl::StripTrailingAsciiWhitespace(&errors);
    return absl::InvalidArgumentError(errors);
  }
  store::JobRow row = NewRow(context, request, parsed);
  v1::JobEvent event;
  event.set_job(row.job.id());
  event.set_time_unix_ms(row.job.created_unix_ms());
  event.set_type("Submitted");
  event.set_message(absl::StrCat("job ", row.job.id(), " submitted"));
  event.set_data_json("{}");
  event.set_state(row.job.state());

  store::Batch& batch = context.deps.journal->batch();
  RETURN_IF_ERROR(context.deps.journal->Flush());  // the batch below is this job's alone
  store::Batch mine;
  mine.jobs.push_back(row);
  mine.events.push_back(std::move(event));
  if (!request.idempotency_key().empty()) {
    mine.keys.push_back({request.idempotency_key(), body_hash, row.job.id()});
  }
  batch = std::move(mine);
  if (absl::Status status = context.deps.journal->Flush(); !status.ok()) {
    batch = store::Batch();  // not accepted: nothing of it may be written later
    return absl::UnavailableError(
        absl::StrCat("the job was not accepted: ", std::string(status.message())));
  }
  const std::string id = row.job.id();
  context.jobs->Add(std::move(row), parsed.spec);
  ASSIGN_OR_RETURN(driver::JobDriver * job, context.jobs->Find(id));
  return job->job();
}

}  // namespace

std::string BaseDirectory(const std::string& yaml_path) {
  const std::filesystem::path path(yaml_path);
  if (path.is_absolute()) return path.parent_path().string();
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

void Submit(Context& context, const v1::SubmitRequest& request, Reply<v1::Job> reply) {
  reply(Decide(context, request));
}

}  // namespace coxswain::api
