// What an answer of the Hub that is none means to a user.
#ifndef COXSWAIN_COMMON_HUB_API_HUB_FAILURE_H_
#define COXSWAIN_COMMON_HUB_API_HUB_FAILURE_H_

#include <string>

#include "absl/status/status.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

// The status of a call that ended not ok(), for `file` of `repository` or, where that is empty, for
// the repository itself:
//
// | answer | code | the message says |
// |---|---|---|
// | none, cut short, 408, 429, 5xx | Unavailable | the host, and what it said |
// | 401 | Unauthenticated | whether a token was sent, and where one comes from |
// | 401 or 403 of a gated repository, 403 | PermissionDenied | where its conditions are accepted |
// | 404 | NotFound | repository, revision or file |
// | another | Unknown | host and status |
//
// What a callback of the call refused comes back as it is. No message holds the token.
absl::Status FailureOf(const HttpEnd& end, const Settings& settings, const Repository& repository,
                       const std::string& file);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_HUB_FAILURE_H_
