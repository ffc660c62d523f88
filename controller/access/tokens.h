// The tokens by which users and operators call: hashes alone, but for the moment of drawing one.
#ifndef COXSWAIN_CONTROLLER_ACCESS_TOKENS_H_
#define COXSWAIN_CONTROLLER_ACCESS_TOKENS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/access/principal.h"
#include "common/mutex.h"
#include "controller/store/store.h"

namespace coxswain::access {

struct DrawnToken {
  store::TokenRow row;
  std::string token;  // what its user presents
};

// A token that is of nobody's table yet. `lifetime_ms` 0: it does not expire.
DrawnToken DrawToken(const Principal& principal, int64_t now_unix_ms, int64_t lifetime_ms);

// Thread-safe.
class Tokens {
 public:
  void Put(const store::TokenRow& row);  // a new one, or one that changed; durable before
  // Lets in whoever presents `token` as operator "local", until the process ends.
  void LetInLocally(const std::string& token);

  std::optional<store::TokenRow> Find(const std::string& id) const;
  std::vector<store::TokenRow> All() const;  // by creation, then id

  // Whose `token` is. Unauthenticated: it is not known, has expired or is revoked; its id is named
  // and it is not.
  absl::StatusOr<Principal> Identify(const std::string& token, int64_t now_unix_ms) const;

 private:
  mutable Mutex mu_;
  std::map<std::string, store::TokenRow> by_hash_ ABSL_GUARDED_BY(mu_);
  std::string local_hash_ ABSL_GUARDED_BY(mu_);  // empty: none
};

}  // namespace coxswain::access

#endif  // COXSWAIN_CONTROLLER_ACCESS_TOKENS_H_
