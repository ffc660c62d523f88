#include "common/hub/upload/push_target.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/api/retries.h"
#include "common/hub/upload/push_failure.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

// The commit in the answer about a revision.
absl::StatusOr<std::string> ReadCommit(const Settings& settings, const Repository& repository,
                                       bool is_private, const std::string& answer) {
  const Json info = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  const auto sha = info.is_object() ? info.find("sha") : info.end();
  if (sha == info.end() || !sha->is_string() || !IsCommit(sha->get<std::string>())) {
    return absl::DataLossError(absl::StrCat(settings.endpoint, " answered for ", NameOf(repository),
                                            " without a commit: is it a server of the Hub's API?"));
  }
  const auto told = info.find("private");
  if (is_private && told != info.end() && *told == false) {
    return absl::FailedPreconditionError(absl::StrCat(
        NameOf(repository), " is public at ", settings.endpoint,
        ", and what is pushed should be private: make the repository private, or push as public"));
  }
  return sha->get<std::string>();
}

absl::Status MakeBranch(const Settings& settings, const Repository& repository,
                        const std::function<bool()>& cancelled) {
  const ApiPost post{.url = BranchUrl(settings.endpoint, repository), .text = "{}"};
  ASSIGN_OR_RETURN(const ApiReply reply, PostApi(settings, post, cancelled));
  if (reply.end.ok() || reply.end.head.status == 409) return absl::OkStatus();
  return PushFailureOf(reply.end, settings, repository,
                       absl::StrCat("a branch ", repository.revision));
}

// 409: it exists, or another call makes it.
absl::Status MakeRepositoryThere(const Settings& settings, const Repository& repository,
                                 bool is_private, const std::function<bool()>& cancelled) {
  const size_t slash = repository.id.find('/');
  const Json question = {{"organization", repository.id.substr(0, slash)},
                         {"name", repository.id.substr(slash + 1)},
                         {"type", repository.type == RepositoryType::kModel ? "model" : "dataset"},
                         {"visibility", is_private ? "private" : "public"}};
  const ApiPost post{.url = settings.endpoint + "/api/repos/create", .text = question.dump()};
  ASSIGN_OR_RETURN(const ApiReply reply, PostApi(settings, post, cancelled));
  if (reply.end.ok() || reply.end.head.status == 409) return absl::OkStatus();
  return PushFailureOf(reply.end, settings, repository, "a new repository");
}

}  // namespace

absl::StatusOr<std::string> EnsureBranch(const Settings& settings, const Repository& repository,
                                         bool is_private, const std::function<bool()>& cancelled) {
  Retries retries(settings.limits);
  while (true) {
    ASSIGN_OR_RETURN(const ApiReply reply,
                     GetApi(settings, RevisionUrl(settings.endpoint, repository), cancelled));
    if (reply.end.ok()) return ReadCommit(settings, repository, is_private, reply.body);
    const int status = reply.end.head.status;
    // A repository that is private to others answers 401, too, and is not made.
    const bool missing = reply.end.failure.empty() && (status == 404 || status == 401);
    if (!missing) return PushFailureOf(reply.end, settings, repository, "a commit");
    RETURN_IF_ERROR(reply.end.head.Header("x-error-code") == "RevisionNotFound"
                        ? MakeBranch(settings, repository, cancelled)
                        : MakeRepositoryThere(settings, repository, is_private, cancelled));
    const std::optional<std::chrono::milliseconds> delay = retries.Again();
    if (!delay) return PushFailureOf(reply.end, settings, repository, "a commit");
    // What was made may take a moment to be seen.
    if (retries.failures() > 1 && !Pause(*delay, cancelled)) {
      return absl::CancelledError(
          absl::StrCat("the push to ", NameOf(repository), " was cancelled"));
    }
  }
}

}  // namespace coxswain::hub
