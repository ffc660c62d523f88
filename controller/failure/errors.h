// Errors of an attempt: finds the one that explains it, and formats it for users.
#ifndef COXSWAIN_CONTROLLER_FAILURE_ERRORS_H_
#define COXSWAIN_CONTROLLER_FAILURE_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::failure {

struct Where {
  int rank = -1;  // -1: no rank
  std::string host = {};
  std::string phase = {};  // "prepare", "connect", "train", "eval", "snapshot", "save_shard", ...
};

// An Error of `status`. The message becomes clean text, whatever the status quotes.
v1::Error MakeError(const absl::Status& status, const Where& where);
// As MakeError, with ERROR_KIND_BUG: something happened that cannot happen.
v1::Error MakeBug(const absl::Status& status, const Where& where);
// The error that the rank at `where` reported, as clean text. Fills in place, phase and kind where
// the rank named none.
v1::Error ToldBy(const Where& where, v1::Error told);
absl::Status ToStatus(const v1::Error& error);

// The error that explains the others. A bug comes first, then a user's error, then storage's or a
// host's, then a system's. An error that names a cause goes before those of peers that only saw a
// rank go (UNAVAILABLE, CANCELLED, ABORTED). Of equal ones, the first to arrive.
const v1::Error& RootCause(const std::vector<v1::Error>& errors);

// "rank 1 (host-a), train: message" for events and logs.
std::string Describe(const v1::Error& error);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_ERRORS_H_
