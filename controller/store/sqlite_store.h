// The durable store: one SQLite file in WAL mode, synchronous=FULL, held by one controller at a
// time.
#ifndef COXSWAIN_CONTROLLER_STORE_SQLITE_STORE_H_
#define COXSWAIN_CONTROLLER_STORE_SQLITE_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "common/mutex.h"
#include "controller/store/sqlite.h"
#include "controller/store/sqlite_history.h"
#include "controller/store/store.h"

namespace coxswain::store {

class SqliteStore : public Store {
 public:
  // Makes `state_dir` and state_dir/coxswain.db when absent and locks state_dir/lock for the life
  // of the object. FailedPrecondition: another controller holds the lock (its pid is named), or the
  // schema is newer. DataLoss: the file is not a database.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& state_dir);
  ~SqliteStore() override;

  std::string Id() const override { return id_; }
  absl::StatusOr<uint64_t> NextTerm(uint64_t seen) override;
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<bool> SweepDeleted() override;
  absl::StatusOr<std::vector<JobRow>> Jobs() override;
  absl::StatusOr<std::vector<EpochRow>> Epochs(const std::string& job) override;
  absl::StatusOr<std::vector<EvalRow>> Evals(const std::string& job, uint64_t epoch) override;
  absl::StatusOr<std::optional<PositionRow>> Position(const std::string& job) override;
  absl::StatusOr<std::string> PlanBytes(const std::string& hash) override;
  absl::StatusOr<std::vector<CheckpointRow>> Checkpoints(const std::string& job) override;
  absl::StatusOr<std::optional<KeyRow>> FindKey(const std::string& key) override;
  absl::StatusOr<std::vector<LinkRow>> Links() override;
  absl::StatusOr<std::vector<CordonRow>> Cordons() override;
  absl::StatusOr<std::vector<TokenRow>> Tokens() override;
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job, int64_t after,
                                                   int64_t limit) override;
  absl::StatusOr<int64_t> UnendedPreparations(const std::string& job) override;
  absl::Status SetUnendedPreparations(const std::string& job, int64_t count) override;
  absl::Status CheckWritable() override;
  History* history() override { return history_.get(); }

 private:
  SqliteStore(int lock_fd, std::unique_ptr<Database> db, std::unique_ptr<SqliteHistory> history);
  absl::StatusOr<Statement*> Cached(const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LoadId() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Transact(absl::FunctionRef<absl::Status()> change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Apply(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InsertJob(const JobRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyJobs(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyGangs(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplySteps(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyCheckpoints(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyLinks(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyCordons(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyTokens(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyEvents(const Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadJob(const std::string& id, const std::string& proto, JobRow* row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  int lock_fd_;
  Mutex mu_;
  std::unique_ptr<Database> db_ ABSL_PT_GUARDED_BY(mu_);
  std::unique_ptr<SqliteHistory> history_;
  std::string id_;
  // Keyed by the literal's address.
  std::map<const char*, std::unique_ptr<Statement>> statements_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_SQLITE_STORE_H_
