#include "controller/sources/hub_access.h"

#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::sources {
namespace {

constexpr int64_t kMostTokenBytes = 4096;

// Names of users are letters, digits, "." "_" "@" "-" (common/access); these two are folders.
bool IsFileName(const std::string& owner) {
  return owner != "." && owner != ".." && owner.find('/') == std::string::npos;
}

}  // namespace

absl::StatusOr<HubCaller> CallerOf(const HubAccess& access, const std::string& owner) {
  HubCaller caller;
  ASSIGN_OR_RETURN(caller.settings, hub::ReadSettings());
  if (owner.empty() || access.token_users.count(owner) > 0) return caller;
  caller.must_ask = true;
  caller.settings.token = {};
  if (access.tokens_dir.empty() || !IsFileName(owner)) return caller;
  const std::string path = absl::StrCat(access.tokens_dir, "/", owner);
  const absl::StatusOr<std::string> text = ReadFile(path, kMostTokenBytes);
  if (absl::IsNotFound(text.status())) return caller;
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(caller.settings.token, hub::Token::Parse(*text, path));
  return caller;
}

}  // namespace coxswain::sources
