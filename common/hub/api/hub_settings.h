// Where the Hub is, who asks, and where its files are kept: the variables of huggingface_hub.
#ifndef COXSWAIN_COMMON_HUB_API_HUB_SETTINGS_H_
#define COXSWAIN_COMMON_HUB_API_HUB_SETTINGS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/api/limits.h"
#include "common/hub/api/token.h"

namespace coxswain::hub {

// The value of a variable; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

// README.md of this room has the variable behind each field, and the default. Proxies are curl's
// own variables, which it reads itself.
struct Settings {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  Token token;
  std::string cache;  // absolute
  bool offline = false;
  std::string ca_file;  // PEM; empty: the system's
  Limits limits;
  // URLs of users may lead to loopback: for tests alone, no variable sets it.
  bool own_machine = false;
};

// InvalidArgument names the variable. Errors of the token's file as ErrnoStatus. No message holds
// of the token.
absl::StatusOr<Settings> ReadSettings(const Environment& environment);
absl::StatusOr<Settings> ReadSettings();  // of this process

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_API_HUB_SETTINGS_H_
