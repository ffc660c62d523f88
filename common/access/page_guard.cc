#include "common/access/page_guard.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/net/socket_address.h"
#include "common/outside_text.h"

namespace coxswain::access {
namespace {

// "localhost:7071", "127.0.0.1", "[::1]:80".
bool NamesThisMachine(const std::string& host) {
  if (IsLoopback(host)) return true;
  if (host.starts_with('[') && host.ends_with(']')) {
    return IsLoopback(host.substr(1, host.size() - 2));
  }
  const absl::StatusOr<SocketAddress> address = ParseSocketAddress(host);
  return address.ok() && IsLoopback(address->host);
}

HttpResponse Refusal(int status, const std::string& why) {
  return {.status = status, .body = CleanText(why) + "\n"};
}

}  // namespace

std::optional<HttpResponse> RefusePage(const Door& door, const HttpCaller& caller) {
  if (caller.authorization.empty() && caller.on_loopback) {
    if (NamesThisMachine(caller.host)) return std::nullopt;
    return Refusal(421, absl::StrCat("the request names host '", caller.host.substr(0, 256),
                                     "': ask for localhost or 127.0.0.1"));
  }
  const absl::StatusOr<Principal> principal =
      door.Identify({.peer = {}, .uris = {}, .authorization = caller.authorization});
  if (!principal.ok()) {
    HttpResponse refusal = Refusal(401, std::string(principal.status().message()));
    refusal.headers = {{"WWW-Authenticate", "Bearer"}};
    return refusal;
  }
  if (principal->role == Role::kOperator) return std::nullopt;
  return Refusal(403, ToText(*principal) + " may not read these pages: they show all jobs");
}

}  // namespace coxswain::access
