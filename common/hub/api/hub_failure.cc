#include "common/hub/api/hub_failure.h"

#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"

namespace coxswain::hub {
namespace {

constexpr char kTokenFrom[] = "HF_TOKEN, or `hf auth login`";

struct Failed {
  const HttpEnd& end;
  const Settings& settings;
  const Repository& repository;
  std::string subject;  // "model org/name", "config.json of model org/name"
};

// What the server says itself; it may say what it was sent.
std::string Words(const Failed& failed) {
  const std::string said = failed.end.head.Header("x-error-message");
  if (said.empty()) return "";
  return absl::StrCat(" (", failed.settings.token.RemovedFrom(OneLine(said, kMostNameBytes)), ")");
}

absl::Status Unreachable(const Failed& failed) {
  const int status = failed.end.head.status;
  std::string what = failed.settings.token.RemovedFrom(failed.end.failure);
  if (what.empty()) what = absl::StrCat("it answered ", status, Words(failed));
  if (failed.end.retry_after.count() > 0) {
    absl::StrAppend(&what, "; it asks to wait ", failed.end.retry_after.count(), " s");
  }
  return absl::UnavailableError(
      absl::StrCat("cannot get ", failed.subject, " from ", PublicUrl(failed.end.head.url), ": ",
                   what, status == 0 ? "; see HF_ENDPOINT and the proxy's variables" : ""));
}

absl::Status Gated(const Failed& failed) {
  return absl::PermissionDeniedError(
      absl::StrCat(NameOf(failed.repository), " is gated: accept the conditions at ",
                   PageUrl(failed.settings.endpoint, failed.repository),
                   failed.settings.token.empty()
                       ? absl::StrCat(" and give the token of that account: ", kTokenFrom)
                       : " with the account of your token",
                   Words(failed)));
}

// The Hub answers 401 for a repository that does not exist, too: who may not see a private one is
// not told that it exists.
absl::Status NotKnown(const Failed& failed) {
  if (failed.settings.token.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        NameOf(failed.repository), " does not exist at ", failed.settings.endpoint,
        ", or is private: check the name; for a private one give a token: ", kTokenFrom));
  }
  return absl::UnauthenticatedError(absl::StrCat(
      failed.settings.endpoint, " does not accept the token for ", NameOf(failed.repository), ": ",
      "check the name and the token (", kTokenFrom, ")", Words(failed)));
}

absl::Status Forbidden(const Failed& failed) {
  return absl::PermissionDeniedError(
      absl::StrCat("access to ", failed.subject, " is refused by ", PublicUrl(failed.end.head.url),
                   ": see ", PageUrl(failed.settings.endpoint, failed.repository), Words(failed)));
}

absl::Status NotThere(const Failed& failed, const std::string& code) {
  const std::string name = NameOf(failed.repository);
  if (code == "RevisionNotFound") {
    return absl::NotFoundError(absl::StrCat(name, " has no revision ", failed.repository.revision,
                                            ": see ",
                                            PageUrl(failed.settings.endpoint, failed.repository)));
  }
  if (code == "EntryNotFound") {
    return absl::NotFoundError(absl::StrCat(failed.subject, " does not exist"));
  }
  return absl::NotFoundError(absl::StrCat(
      failed.subject, " does not exist at ", failed.settings.endpoint, ": check the name, and ",
      failed.repository.type == RepositoryType::kModel ? "whether it is a dataset"
                                                       : "whether it is a model",
      Words(failed)));
}

}  // namespace

absl::Status FailureOf(const HttpEnd& end, const Settings& settings, const Repository& repository,
                       const std::string& file) {
  if (!end.refused.ok()) return end.refused;
  const Failed failed{.end = end,
                      .settings = settings,
                      .repository = repository,
                      .subject = file.empty() ? NameOf(repository)
                                              : absl::StrCat(OneLine(file, kMostNameBytes), " of ",
                                                             NameOf(repository))};
  const int status = end.head.status;
  const std::string code = end.head.Header("x-error-code");
  if (!end.failure.empty() || status == 408 || status == 429 || status / 100 == 5) {
    return Unreachable(failed);
  }
  if (code == "GatedRepo") return Gated(failed);
  if (status == 401) return NotKnown(failed);
  if (status == 403) return Forbidden(failed);
  if (status == 404) return NotThere(failed, code);
  return absl::UnknownError(absl::StrCat(PublicUrl(end.head.url), " answered ", status, " for ",
                                         failed.subject, Words(failed)));
}

}  // namespace coxswain::hub
