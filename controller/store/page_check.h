// Whether the pages of the store's file are what SQLite wrote.
#ifndef COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_
#define COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::store {

// Reads the whole file, over a connection of its own beside those that write: seconds for each GB.
// A sentence for each damage that was found, at most 20; none: it is sound. Cancelled: `stop` was
// asked for.
absl::StatusOr<std::vector<std::string>> FindDamage(const std::string& path,
                                                    const std::stop_token& stop);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_PAGE_CHECK_H_
