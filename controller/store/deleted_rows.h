// Rows of deleted jobs out of the SQLite file. A job's steps and events may be millions: they go in
// pieces, so that no writer waits long for another. Invariant store-8.
#ifndef COXSWAIN_CONTROLLER_STORE_DELETED_ROWS_H_
#define COXSWAIN_CONTROLLER_STORE_DELETED_ROWS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/store/sqlite.h"

namespace coxswain::store {

// Most rows of a table that one transaction deletes. Of steps, rows of the last step's other epochs
// may come on top.
inline constexpr int64_t kRowsOfAPiece = 4096;

// In the caller's transaction: the job is gone from every list, with a first piece of its steps and
// events. What is left of them is noted in table deletions.
absl::Status DeleteJob(Database* db, const std::string& job);
// In the caller's transaction, a piece of what DeleteJob left. True: there is more.
absl::StatusOr<bool> DeletePiece(Database* db);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_DELETED_ROWS_H_
