// Errors of an attempt: which one explains it, and how users read it.
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

// The message as clean text, whatever file or library the status quotes.
v1::Error MakeError(const absl::Status& status, const Where& where);
// As MakeError, of what cannot be: ERROR_KIND_BUG.
v1::Error MakeBug(const absl::Status& status, const Where& where);
// What the rank at `where` told: clean, from there, and of a phase and a kind where it named none.
v1::Error ToldBy(const Where& where, v1::Error told);
absl::Status ToStatus(const v1::Error& error);

// The error that explains the others: a bug, then a user's, then storage's or a host's, then a
// system's; one that names a cause before those of peers that only saw a rank go (UNAVAILABLE,
// CANCELLED, ABORTED), then the first to arrive.
const v1::Error& RootCause(const std::vector<v1::Error>& errors);

// "rank 1 (host-a), train: message" for events and logs.
std::string Describe(const v1::Error& error);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_ERRORS_H_
