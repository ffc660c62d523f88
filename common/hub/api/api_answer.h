// One question to the API of the Hub.
#ifndef COXSWAIN_COMMON_HUB_API_API_ANSWER_H_
#define COXSWAIN_COMMON_HUB_API_API_ANSWER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"

namespace coxswain::hub {

struct ApiAnswer {
  std::string body;
  std::string next;  // the URL of the next page; empty: it is the last
};

// What GET of `url` answers, after Retries. Errors as FailureOf for `repository`. ResourceExhausted
// above 64 MiB. Cancelled soon after `cancelled` (may be empty) says so.
absl::StatusOr<ApiAnswer> AskApi(const Settings& settings, const Repository& repository,
                                 const std::string& url, const std::function<bool()>& cancelled);

// What is sent with a POST. Content-Type of the Hub's API unless another is said.
struct ApiPost {
  std::string url;
  std::string text = {};
  std::string type = "application/json";
};

struct ApiReply {
  HttpEnd end;       // of the last attempt, which an error has ended too
  std::string body;  // of an answer 2xx
};

// The same for a POST, and for a GET whose refusals are no errors. Only a cancellation, an answer
// above 64 MiB and libcurl's own failure are.
absl::StatusOr<ApiReply> PostApi(const Settings& settings, const ApiPost& post,
                                 const std::function<bool()>& cancelled);
absl::StatusOr<ApiReply> GetApi(const Settings& settings, const std::string& url,
                                const std::function<bool()>& cancelled);

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_API_ANSWER_H_
