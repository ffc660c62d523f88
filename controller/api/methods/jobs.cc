// Jobs found, listed and changed.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/api/arguments.h"
#include "controller/api/job_replies.h"
#include "controller/api/operations.h"

namespace coxswain::api {

void Get(Context& context, const v1::GetRequest& request, Reply<v1::Job> reply) {
  ReplyJob(context.jobs->Find(request.job()), reply);
}

namespace {

constexpr int64_t kPageBytes = int64_t{4} << 20;  // of all its jobs but the last

bool Matches(const v1::Job& job, const v1::ListRequest& request) {
  return std::all_of(request.labels().begin(), request.labels().end(),
                     [&](const std::string& label) {
                       const size_t equals = label.find('=');
                       const auto it = job.labels().find(label.substr(0, equals));
                       return it != job.labels().end() && it->second == label.substr(equals + 1);
                     });
}

}  // namespace

// A page token is the order of submission of the last job before: jobs that come or go meanwhile
// move no other to another page.
void List(Context& context, const v1::ListRequest& request, const access::Principal& caller,
          Reply<v1::ListResponse> reply) {
  const std::string owner = caller.role == access::Role::kUser ? caller.name : std::string();
  int64_t below = std::numeric_limits<int64_t>::max();
  if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &below)) {
    reply(absl::InvalidArgumentError(absl::StrCat("page_token is '", request.page_token(),
                                                  "', which is no next_page_token of a reply")));
    return;
  }
  const int64_t most = request.page_size() == 0 ? kMostListed : request.page_size();
  int64_t bytes = 0;
  v1::ListResponse response;
  for (const driver::JobDriver* job : context.jobs->NewestFirst()) {
    if (!owner.empty() && job->job().owner() != owner) continue;
    if (job->row().order >= below || !Matches(job->job(), request)) continue;
    if (response.jobs_size() == most || bytes >= kPageBytes) {
      response.set_next_page_token(absl::StrCat(below));
      break;
    }
    *response.add_jobs() = ListedJob(job->job());
    bytes += static_cast<int64_t>(response.jobs().rbegin()->ByteSizeLong());
    below = job->row().order;
  }
  reply(std::move(response));
}

void Cancel(Context& context, const v1::CancelRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(),
      [&](driver::JobDriver& job) { return job.Cancel(request.checkpoint()); }, reply);
}

void Pause(Context& context, const v1::PauseRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(), [](driver::JobDriver& job) { return job.Pause(); }, reply);
}

void Resume(Context& context, const v1::ResumeRequest& request, Reply<v1::Job> reply) {
  ReplyJob(
      context, request.job(), [&](driver::JobDriver& job) { return job.Resume(request.steps()); },
      reply);
}

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
