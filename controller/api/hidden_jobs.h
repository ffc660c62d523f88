// What a user is not told: the ids of the jobs of others.
#ifndef COXSWAIN_CONTROLLER_API_HIDDEN_JOBS_H_
#define COXSWAIN_CONTROLLER_API_HIDDEN_JOBS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/access/principal.h"
#include "controller/api/context.h"

namespace coxswain::api {

// `text`, in which "(of another user)" stands for each id of a job that is not `caller`'s. Of an
// operator: as it came.
std::string HideJobs(const Context& context, const access::Principal& caller, std::string text);

inline absl::Status HideJobs(const Context& context, const access::Principal& caller,
                             const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), HideJobs(context, caller, std::string(status.message())));
}

// Likewise the texts of an answer: of an explanation, an event, a line of a log.
template <typename Response>
void HideJobsOf(const Context& context, const access::Principal& caller, Response* response) {
  if constexpr (requires { response->mutable_text(); }) {
    *response->mutable_text() = HideJobs(context, caller, response->text());
  }
  if constexpr (requires { response->mutable_message(); }) {
    *response->mutable_message() = HideJobs(context, caller, response->message());
  }
  if constexpr (requires { response->mutable_level(); }) {
    *response->mutable_json() = HideJobs(context, caller, response->json());
  }
}

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_HIDDEN_JOBS_H_
