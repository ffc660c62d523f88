// The join token as a controller, worker or supervisor holds it.
#ifndef COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_
#define COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace coxswain::access {

// Thread-safe.
class JoinToken {
 public:
  static constexpr std::chrono::minutes kBoth{10};

  // `file`: --join-token-file. Without, the token that the controller at `controller` (host:port)
  // left on this machine, where it is on loopback.
  JoinToken(std::string file, std::string controller);

  // What the file holds now, or held before it could no longer be read. For kBoth after it changed
  // what it held before follows: hosts get a new token one after the other. Empty: it could never
  // be read, which is logged once.
  std::vector<std::string> Held();

 private:
  absl::StatusOr<std::string> Read() const;

  const std::string file_;
  const std::string controller_;
  Mutex mu_;
  std::string held_ ABSL_GUARDED_BY(mu_);
  std::string before_ ABSL_GUARDED_BY(mu_);  // empty: held_ is the first
  std::chrono::steady_clock::time_point changed_ ABSL_GUARDED_BY(mu_);
  bool told_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_
