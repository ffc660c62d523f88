#include "controller/gang/rank_errors.h"

#include <algorithm>
#include <utility>

#include "controller/failure/errors.h"

namespace coxswain::gang {

void RankErrors::Told(int rank, v1::Error error) {
  told_[static_cast<size_t>(rank)] = true;
  errors_.push_back(std::move(error));
}

void RankErrors::Seen(int rank, v1::Error error) {
  told_[static_cast<size_t>(rank)] = true;
  errors_.insert(errors_.begin(), std::move(error));
}

bool RankErrors::Settled() const {
  const bool all = std::all_of(told_.begin(), told_.end(), [](bool told) { return told; });
  return all || std::any_of(errors_.begin(), errors_.end(), [](const v1::Error& error) {
           return error.kind() == v1::ERROR_KIND_USER;
         });
}

const v1::Error& RankErrors::Verdict() const { return failure::RootCause(errors_); }

}  // namespace coxswain::gang
