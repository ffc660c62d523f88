// Errors of the ranks of a gang, collected until the cause can be named.
#ifndef COXSWAIN_CONTROLLER_GANG_RANK_ERRORS_H_
#define COXSWAIN_CONTROLLER_GANG_RANK_ERRORS_H_

#include <vector>

#include "coxswain/v1/common.pb.h"

namespace coxswain::gang {

// The first error seen is often only the echo of another rank's: the verdict waits for the others.
class RankErrors {
 public:
  explicit RankErrors(int world_size) : told_(static_cast<size_t>(world_size), false) {}

  bool empty() const { return errors_.empty(); }
  // Of this rank, by itself or by what was seen of it.
  bool Knows(int rank) const { return told_[static_cast<size_t>(rank)]; }

  // What a rank told, of itself or of a peer.
  void Told(int rank, v1::Error error);
  // What was seen of a rank here: it goes before what others tell of it.
  void Seen(int rank, v1::Error error);
  // What concerns all of them.
  void OfGang(v1::Error error) { errors_.push_back(std::move(error)); }

  // Nothing that is still to come changes the verdict: a user's error, or every rank was heard.
  bool Settled() const;
  // failure::RootCause of them; there must be one.
  const v1::Error& Verdict() const;

 private:
  std::vector<v1::Error> errors_;
  std::vector<bool> told_;  // by rank
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_RANK_ERRORS_H_
