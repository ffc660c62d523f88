// What a refusal of the Hub means to who sends something to it.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FAILURE_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

// The status of a call that ended not ok(), made to send `what` ("model.safetensors", "a commit")
// to `repository`:
//
// | answer | code | the message says |
// |---|---|---|
// | none, cut short, 408, 429, 5xx | Unavailable | the host, and what it said |
// | 401 | Unauthenticated | that the token is not accepted, and where one comes from |
// | 403 | PermissionDenied | that it lacks the right to write |
// | 404 | NotFound | the repository |
// | 409, 412 | Aborted | that another push was faster |
// | 402, 413 | FailedPrecondition | that it is too much for the account |
// | another | FailedPrecondition | host, status, and what it said |
//
// What a callback of the call refused comes back as it is. No message holds the token.
absl::Status PushFailureOf(const HttpEnd& end, const Settings& settings,
                           const Repository& repository, const std::string& what);

// What the server says itself, in one line without the token; empty: nothing.
std::string WordsOf(const HttpEnd& end, const Settings& settings);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_PUSH_FAILURE_H_
