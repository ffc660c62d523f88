// The join token as a worker or supervisor holds it.
#ifndef COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_
#define COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace coxswain::access {

// Thread-safe.
class JoinToken {
 public:
  // `file`: --join-token-file. Without, the token that the controller at `controller` (host:port)
  // left on this machine, where it is on loopback.
  JoinToken(std::string file, std::string controller);

  // What the file holds now; what it held before where it cannot be read. Empty: it could never be
  // read, which is logged once.
  std::string Current();

 private:
  absl::StatusOr<std::string> Read() const;

  const std::string file_;
  const std::string controller_;
  Mutex mu_;
  std::string held_ ABSL_GUARDED_BY(mu_);
  bool told_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_JOIN_TOKEN_H_
