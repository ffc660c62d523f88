// Tables of the SQLite store and their versions.
#ifndef COXSWAIN_CONTROLLER_STORE_SCHEMA_H_
#define COXSWAIN_CONTROLLER_STORE_SCHEMA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "controller/store/sqlite.h"

namespace coxswain::store {

inline constexpr int64_t kSchemaVersion = 7;

// Creates the tables that an empty database or one of an older schema lacks. FailedPrecondition
// names both numbers when the database was written by a newer schema.
absl::Status EnsureSchema(Database* db);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_SCHEMA_H_
