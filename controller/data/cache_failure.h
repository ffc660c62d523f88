// Marks failures to write the token cache: the controller's disk causes them, not a dataset.
#ifndef COXSWAIN_CONTROLLER_DATA_CACHE_FAILURE_H_
#define COXSWAIN_CONTROLLER_DATA_CACHE_FAILURE_H_

#include "absl/status/status.h"

namespace coxswain::data {

// `status` of a write, marked for IsOfTokenCache unless it is OK.
absl::Status OfTokenCache(absl::Status status);
bool IsOfTokenCache(const absl::Status& status);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_CACHE_FAILURE_H_
