// The past of jobs out of the SQLite file, over a connection of its own: WAL lets it read while the
// loop commits.
#ifndef COXSWAIN_CONTROLLER_STORE_SQLITE_HISTORY_H_
#define COXSWAIN_CONTROLLER_STORE_SQLITE_HISTORY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "controller/store/sqlite.h"
#include "controller/store/store.h"

namespace coxswain::store {

class SqliteHistory : public History {
 public:
  // `path` is a database with the tables of schema.cc.
  static absl::StatusOr<std::unique_ptr<SqliteHistory>> Open(const std::string& path);

  absl::StatusOr<std::vector<StepRow>> Steps(const std::string& job, int64_t from_step) override;
  absl::StatusOr<std::vector<v1::JobEvent>> EventsAfter(const std::string& job, int64_t after,
                                                        int64_t limit) override;
  absl::StatusOr<std::vector<v1::JobEvent>> NewestEvents(const std::string& job,
                                                         int64_t limit) override;

 private:
  explicit SqliteHistory(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  Mutex mu_;  // one reader at a time
  const std::unique_ptr<Database> db_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_SQLITE_HISTORY_H_
