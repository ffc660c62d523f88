// Where the Hub is, who asks, and where its files are kept: the variables of huggingface_hub.
#ifndef COXSWAIN_COMMON_HUB_API_HUB_SETTINGS_H_
#define COXSWAIN_COMMON_HUB_API_HUB_SETTINGS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/api/token.h"

namespace coxswain::hub {

// The value of a variable; null where it is not set.
using Environment = std::function<const char*(const char* name)>;

// How hard the client of the Hub tries.
struct Limits {
  int connections = 8;  // at a time, over all files of a download or a push
  // A file is fetched in pieces of so many bytes, which connections share.
  int64_t piece_bytes = int64_t{32} << 20;
  std::chrono::milliseconds connect{10'000};
  std::chrono::seconds stall{30};  // without a byte
  std::chrono::seconds work{300};  // likewise, until a question that sends something is answered
  // Of one request in a row, without a byte between them.
  int attempts = 6;
  // Before the second attempt; doubled before each further one, up to longest_delay.
  std::chrono::milliseconds first_delay{1'000};
  std::chrono::milliseconds longest_delay{30'000};
  // A server that asks for more patience (Retry-After) is not waited for.
  std::chrono::seconds longest_wait{600};
};

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
