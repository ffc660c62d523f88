// With whose token the controller asks the Hub.
#ifndef COXSWAIN_CONTROLLER_SOURCES_HUB_ACCESS_H_
#define COXSWAIN_CONTROLLER_SOURCES_HUB_ACCESS_H_

#include <functional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/api/hub_settings.h"

namespace coxswain::sources {

// What the operator allowed.
struct HubAccess {
  std::set<std::string> token_users;  // users for whom the controller's own token is sent
  std::string tokens_dir;             // folder with a token in a file for each user; empty: none
};

struct HubCaller {
  hub::Settings settings;
  // The token is the caller's own, or none. What the cache has may have come with another's, so
  // that the Hub is asked for every repository.
  bool must_ask = false;
  // The absolute path of what "upload://SHA256/NAME" names for this caller. Null: there is no
  // controller that has uploads.
  std::function<absl::StatusOr<std::string>(const std::string& text)> upload = {};
};

// `owner` as Job.owner: empty for operators, for whom the controller's token is sent. It is read
// from the environment at each call: a file may be replaced. Of other users that are not in
// token_users the token is the file named like the user in tokens_dir; without one, none is sent.
// Errors as ReadSettings; InvalidArgument names the file, without a word of what it holds.
absl::StatusOr<HubCaller> CallerOf(const HubAccess& access, const std::string& owner);

}  // namespace coxswain::sources

#endif  // COXSWAIN_CONTROLLER_SOURCES_HUB_ACCESS_H_
