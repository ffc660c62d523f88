// Whether the pages of the store's file are what SQLite wrote.
#ifndef COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_
#define COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::store {

// Reads the whole file over a connection of its own, beside those that write. It takes seconds per
// GB. Returns a sentence for each damage, at most 20; none: the file is sound. Cancelled: `stop`
// was set.
absl::StatusOr<std::vector<std::string>> FindDamage(const std::string& path,
                                                    const std::stop_token& stop);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_
