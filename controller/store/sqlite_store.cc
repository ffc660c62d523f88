#include "controller/store/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/files/private_folder.h"
#include "common/outside_text.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "controller/store/deleted_rows.h"
#include "controller/store/event_row.h"
#include "controller/store/schema.h"

namespace coxswain::store {
namespace {

// A killed holder keeps its lock for a moment after it has gone from sight.
bool LockWithin(int fd, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Locks `path` for this process; writes the pid so that a second controller can name the holder.
absl::StatusOr<int> LockFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("lock ", path, ": cannot be opened: ", strerror(errno)));
  }
  if (!LockWithin(fd, std::chrono::seconds(2))) {
    char holder[32] = {};
    const ssize_t n = pread(fd, holder, sizeof(holder) - 1, 0);
    close(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", std::filesystem::path(path).parent_path().string(),
                     " is in use by the controller with pid ", n > 0 ? holder : "unknown",
                     "; stop it or give another --state-dir"));
  }
  const std::string pid = absl::StrCat(getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    const absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("lock ", path, ": cannot be written: ", strerror(errno)));
    close(fd);
    return status;
  }
  return fd;
}

}  // namespace

SqliteStore::SqliteStore(int lock_fd, std::unique_ptr<Database> db,
                         std::unique_ptr<SqliteHistory> history)
    : lock_fd_(lock_fd), db_(std::move(db)), history_(std::move(history)) {}

SqliteStore::~SqliteStore() {
  history_.reset();  // before the last connection, which folds the WAL into the file
  statements_.clear();
  db_.reset();
  close(lock_fd_);
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& state_dir) {
  RETURN_IF_ERROR(MakePrivateFolder(state_dir));
  ASSIGN_OR_RETURN(const int lock_fd, LockFile(state_dir + "/lock"));
  auto fail = [&](const absl::Status& status) {
    close(lock_fd);
    return status;
  };
  // SQLite would make it readable for all; its WAL takes the mode from it.
  const std::string path = state_dir + "/coxswain.db";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return fail(ErrnoStatus(errno, "open", path));
  const bool is_private = fchmod(file, 0600) == 0;
  close(file);
  if (!is_private) return fail(ErrnoStatus(errno, "make private", path));
  auto db = Database::Open(path);
  if (!db.ok()) return fail(db.status());
  for (const char* pragma : {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL"}) {
    if (absl::Status status = (*db)->Execute(pragma); !status.ok()) return fail(status);
  }
  if (absl::Status status = EnsureSchema(db->get()); !status.ok()) return fail(status);
  auto history = SqliteHistory::Open((*db)->path());
  if (!history.ok()) return fail(history.status());
  std::unique_ptr<SqliteStore> store(new SqliteStore(lock_fd, std::move(*db), *std::move(history)));
  MutexLock lock(store->mu_);
  RETURN_IF_ERROR(store->LoadId());
  return store;
}

absl::Status SqliteStore::LoadId() {
  RETURN_IF_ERROR(
      db_->Execute("INSERT OR IGNORE INTO meta VALUES('id', random() & 9223372036854775807)"));
  ASSIGN_OR_RETURN(Statement * query, Cached("SELECT value FROM meta WHERE key='id'"));
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return absl::DataLossError(absl::StrCat("store ", db_->path(), ": meta has no id"));
  id_ = absl::StrCat(absl::Hex(query->ColumnInt(0), absl::kZeroPad16));
  query->Reset();
  return absl::OkStatus();
}

absl::StatusOr<Statement*> SqliteStore::Cached(const char* sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    ASSIGN_OR_RETURN(auto statement, db_->Prepare(sql));
    it = statements_.emplace(sql, std::move(statement)).first;
  }
  it->second->Reset();
  return it->second.get();
}

absl::StatusOr<uint64_t> SqliteStore::NextTerm(uint64_t seen) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * raise,
                   Cached("UPDATE meta SET value=max(value, ?)+1 WHERE key='term'"));
  RETURN_IF_ERROR(raise->Int(1, static_cast<int64_t>(seen)).Run());
  ASSIGN_OR_RETURN(Statement * query, Cached("SELECT value FROM meta WHERE key='term'"));
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return absl::DataLossError(absl::StrCat("store ", db_->path(), ": meta has no term"));
  const uint64_t term = static_cast<uint64_t>(query->ColumnInt(0));
  query->Reset();
  fault::Pass(fault::Point::kTermStored);
  return term;
}

absl::StatusOr<int64_t> SqliteStore::UnendedPreparations(const std::string& job) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query, Cached("SELECT unended FROM preparations WHERE job=?"));
  ASSIGN_OR_RETURN(const bool row, query->Text(1, job).Step());
  const int64_t count = row ? query->ColumnInt(0) : 0;
  query->Reset();
  return count;
}

absl::Status SqliteStore::SetUnendedPreparations(const std::string& job, int64_t count) {
  MutexLock lock(mu_);
  if (count == 0) {
    ASSIGN_OR_RETURN(Statement * remove, Cached("DELETE FROM preparations WHERE job=?"));
    return remove->Text(1, job).Run();
  }
  ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR REPLACE INTO preparations VALUES(?,?)"));
  return put->Text(1, job).Int(2, count).Run();
}

absl::Status SqliteStore::CheckWritable() {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(db_->Execute("BEGIN IMMEDIATE"));
  absl::Status status = db_->Execute(
      "INSERT OR REPLACE INTO meta VALUES('probe', 1); DELETE FROM meta WHERE key='probe'");
  db_->Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status SqliteStore::Commit(const Batch& batch) {
  MutexLock lock(mu_);
  if (batch.empty()) return absl::OkStatus();
  return Transact([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return Apply(batch); });
}

absl::StatusOr<bool> SqliteStore::SweepDeleted() {
  MutexLock lock(mu_);
  {
    ASSIGN_OR_RETURN(Statement * query, Cached("SELECT EXISTS(SELECT 1 FROM deletions)"));
    ASSIGN_OR_RETURN(const bool row, query->Step());
    const bool any = row && query->ColumnInt(0) != 0;
    query->Reset();
    if (!any) return false;
  }
  bool more = false;
  RETURN_IF_ERROR(Transact([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::Status {
    ASSIGN_OR_RETURN(more, DeletePiece(db_.get()));
    return absl::OkStatus();
  }));
  return more;
}

absl::Status SqliteStore::Transact(absl::FunctionRef<absl::Status()> change) {
  RETURN_IF_ERROR(fault::Reach(fault::Point::kStoreBegin));
  RETURN_IF_ERROR(db_->Execute("BEGIN IMMEDIATE"));
  absl::Status status = change();
  if (status.ok()) status = fault::Reach(fault::Point::kStoreCommit);
  if (status.ok()) status = db_->Execute("COMMIT");
  if (!status.ok()) db_->Execute("ROLLBACK").IgnoreError();
  if (status.ok()) fault::Pass(fault::Point::kStoreCommitted);
  return status;
}

absl::Status SqliteStore::Apply(const Batch& batch) {
  RETURN_IF_ERROR(ApplyJobs(batch));
  RETURN_IF_ERROR(ApplyGangs(batch));
  RETURN_IF_ERROR(ApplySteps(batch));
  RETURN_IF_ERROR(ApplyCheckpoints(batch));
  RETURN_IF_ERROR(ApplyLinks(batch));
  RETURN_IF_ERROR(ApplyCordons(batch));
  RETURN_IF_ERROR(ApplyTokens(batch));
  RETURN_IF_ERROR(ApplyEvents(batch));
  for (const std::string& id : batch.deleted_jobs) RETURN_IF_ERROR(DeleteJob(db_.get(), id));
  return absl::OkStatus();
}

absl::Status SqliteStore::InsertJob(const JobRow& row) {
  ASSIGN_OR_RETURN(Statement * find, Cached("SELECT 1 FROM jobs WHERE id=?"));
  ASSIGN_OR_RETURN(const bool taken, find->Text(1, row.job.id()).Step());
  find->Reset();
  if (taken) {
    return absl::AlreadyExistsError(
        absl::StrCat("store ", db_->path(), ": there is a job ", row.job.id(), " already"));
  }
  ASSIGN_OR_RETURN(Statement * put,
                   Cached("INSERT INTO jobs(id, ord, base_dir, stop_at_step, drain_goal, proto, "
                          "drain_step, yields_to) VALUES(?,?,?,?,?,?,?,?)"));
  return put->Text(1, row.job.id())
      .Int(2, row.order)
      .Text(3, row.base_dir)
      .Int(4, row.stop_at_step)
      .Int(5, row.drain_goal)
      .Blob(6, row.job.SerializeAsString())
      .Int(7, row.drain_step)
      .Text(8, row.yields_to)
      .Run();
}

absl::Status SqliteStore::ApplyJobs(const Batch& batch) {
  for (const JobRow& row : batch.new_jobs) RETURN_IF_ERROR(InsertJob(row));
  for (const JobRow& row : batch.jobs) {
    ASSIGN_OR_RETURN(Statement * put,
                     Cached("UPDATE jobs SET base_dir=?, stop_at_step=?, drain_goal=?, proto=?, "
                            "drain_step=?, yields_to=? WHERE id=?"));
    RETURN_IF_ERROR(put->Text(1, row.base_dir)
                        .Int(2, row.stop_at_step)
                        .Int(3, row.drain_goal)
                        .Blob(4, row.job.SerializeAsString())
                        .Int(5, row.drain_step)
                        .Text(6, row.yields_to)
                        .Text(7, row.job.id())
                        .Run());
  }
  for (const PlanRow& row : batch.plans) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR IGNORE INTO plans VALUES(?,?)"));
    RETURN_IF_ERROR(put->Blob(1, row.hash).Blob(2, row.bytes).Run());
  }
  for (const KeyRow& row : batch.keys) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT INTO keys VALUES(?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.key).Blob(2, row.body_hash).Text(3, row.job).Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyGangs(const Batch& batch) {
  for (const EpochRow& row : batch.epochs) {
    ASSIGN_OR_RETURN(Statement * past, Cached("DELETE FROM evals WHERE job=? AND epoch<?"));
    RETURN_IF_ERROR(past->Text(1, row.job).Int(2, static_cast<int64_t>(row.epoch)).Run());
    ASSIGN_OR_RETURN(Statement * put,
                     Cached("INSERT OR REPLACE INTO epochs(job, epoch, term, plan_hash, "
                            "fingerprint, world_size, start_step, gemm_table, ranks) "
                            "VALUES(?,?,?,?,?,?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.job)
                        .Int(2, static_cast<int64_t>(row.epoch))
                        .Int(3, static_cast<int64_t>(row.term))
                        .Blob(4, row.plan_hash)
                        .Text(5, row.fingerprint)
                        .Int(6, row.world_size)
                        .Int(7, row.start_step)
                        .Text(8, row.gemm_table)
                        .Text(9, row.ranks)
                        .Run());
  }
  for (const EvalRow& row : batch.evals) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR REPLACE INTO evals VALUES(?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.job)
                        .Int(2, static_cast<int64_t>(row.epoch))
                        .Int(3, row.step)
                        .Text(4, row.point)
                        .Run());
  }
  for (const PositionRow& row : batch.positions) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR REPLACE INTO positions VALUES(?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.job)
                        .Int(2, static_cast<int64_t>(row.epoch))
                        .Int(3, static_cast<int64_t>(row.seq))
                        .Text(4, row.state)
                        .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplySteps(const Batch& batch) {
  for (const StepRow& row : batch.steps) {
    ASSIGN_OR_RETURN(Statement * update,
                     Cached("UPDATE steps SET superseded=1 WHERE job=? AND step=? AND epoch<?"));
    RETURN_IF_ERROR(
        update->Text(1, row.job).Int(2, row.step).Int(3, static_cast<int64_t>(row.epoch)).Run());
    ASSIGN_OR_RETURN(Statement * put,
                     Cached("INSERT OR REPLACE INTO steps VALUES(?,?,?,?,?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.job)
                        .Int(2, row.step)
                        .Int(3, static_cast<int64_t>(row.epoch))
                        .Int(4, static_cast<int64_t>(row.loss_bits))
                        .Int(5, static_cast<int64_t>(row.gnorm_bits))
                        .Int(6, row.tokens)
                        .Real(7, row.learning_rate)
                        .Int(8, row.superseded)
                        .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyCheckpoints(const Batch& batch) {
  for (const CheckpointRow& row : batch.checkpoints) {
    ASSIGN_OR_RETURN(Statement * put,
                     Cached("INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,?,?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.job)
                        .Int(2, row.step)
                        .Int(3, static_cast<int64_t>(row.epoch))
                        .Text(4, row.directory)
                        .Int(5, row.bytes)
                        .Int(6, row.committed_unix_ms)
                        .Real(7, row.eval_loss)
                        .Int(8, row.has_eval)
                        .Int(9, row.deleted)
                        .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyLinks(const Batch& batch) {
  for (const LinkRow& row : batch.links) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR REPLACE INTO links VALUES(?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.gang).Int(2, row.bytes).Real(3, row.bytes_per_second).Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyCordons(const Batch& batch) {
  for (const CordonRow& row : batch.cordons) {
    if (row.lifted) {
      ASSIGN_OR_RETURN(Statement * remove, Cached("DELETE FROM cordons WHERE target=?"));
      RETURN_IF_ERROR(remove->Text(1, row.target).Run());
      continue;
    }
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT OR REPLACE INTO cordons VALUES(?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.target)
                        .Text(2, row.reason)
                        .Int(3, row.since_unix_ms)
                        .Int(4, row.automatic)
                        .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyTokens(const Batch& batch) {
  for (const TokenRow& row : batch.tokens) {
    ASSIGN_OR_RETURN(Statement * put,
                     Cached("INSERT OR REPLACE INTO tokens VALUES(?,?,?,?,?,?,?)"));
    RETURN_IF_ERROR(put->Text(1, row.id)
                        .Text(2, row.user)
                        .Text(3, row.role)
                        .Blob(4, row.hash)
                        .Int(5, row.created_unix_ms)
                        .Int(6, row.expires_unix_ms)
                        .Int(7, row.revoked_unix_ms)
                        .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::ApplyEvents(const Batch& batch) {
  for (const v1::JobEvent& event : batch.events) {
    ASSIGN_OR_RETURN(Statement * put, Cached("INSERT INTO events(job, proto) VALUES(?,?)"));
    RETURN_IF_ERROR(put->Text(1, event.job()).Blob(2, event.SerializeAsString()).Run());
  }
  return absl::OkStatus();
}

// Invariant store-6.
void SqliteStore::ReadJob(const std::string& id, const std::string& proto, JobRow* row) {
  if (!row->job.ParseFromString(proto)) {
    row->unreadable = absl::StrCat("its ", proto.size(), " bytes are no valid record of a job");
  } else if (row->job.id() != id) {
    row->unreadable = absl::StrCat("it holds the record of job '", CleanText(row->job.id()), "'");
  } else if (!v1::JobState_IsValid(row->job.state()) ||
             row->job.state() == v1::JOB_STATE_UNSPECIFIED) {
    row->unreadable = absl::StrCat("its state ", static_cast<int>(row->job.state()),
                                   " is none that this release knows");
  } else {
    return;
  }
  row->unreadable = absl::StrCat("row '", CleanText(id), "' of table jobs in ", db_->path(),
                                 " cannot be read: ", row->unreadable);
  row->job.Clear();
  row->job.set_id(CleanText(id));
}

absl::StatusOr<std::vector<JobRow>> SqliteStore::Jobs() {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT ord, base_dir, stop_at_step, drain_goal, proto, id, drain_step, "
                          "yields_to FROM jobs ORDER BY ord"));
  std::vector<JobRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    JobRow& out = rows.emplace_back();
    out.order = query->ColumnInt(0);
    out.base_dir = query->ColumnText(1);
    out.stop_at_step = query->ColumnInt(2);
    out.drain_goal = static_cast<int32_t>(query->ColumnInt(3));
    out.drain_step = query->ColumnInt(6);
    out.yields_to = query->ColumnText(7);
    ReadJob(query->ColumnText(5), query->ColumnText(4), &out);
  }
}

absl::StatusOr<std::vector<EpochRow>> SqliteStore::Epochs(const std::string& job) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT epoch, term, plan_hash, fingerprint, world_size, start_step, "
                          "gemm_table, ranks FROM epochs WHERE job=? ORDER BY epoch"));
  query->Text(1, job);
  std::vector<EpochRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.job = job,
                    .epoch = static_cast<uint64_t>(query->ColumnInt(0)),
                    .term = static_cast<uint64_t>(query->ColumnInt(1)),
                    .plan_hash = query->ColumnText(2),
                    .fingerprint = query->ColumnText(3),
                    .world_size = static_cast<int32_t>(query->ColumnInt(4)),
                    .start_step = query->ColumnInt(5),
                    .gemm_table = query->ColumnText(6),
                    .ranks = query->ColumnText(7)});
  }
}

absl::StatusOr<std::vector<EvalRow>> SqliteStore::Evals(const std::string& job, uint64_t epoch) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT step, point FROM evals WHERE job=? AND epoch=? ORDER BY step"));
  query->Text(1, job).Int(2, static_cast<int64_t>(epoch));
  std::vector<EvalRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({job, epoch, query->ColumnInt(0), query->ColumnText(1)});
  }
}

absl::StatusOr<std::optional<PositionRow>> SqliteStore::Position(const std::string& job) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT epoch, seq, state FROM positions WHERE job=?"));
  query->Text(1, job);
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return std::optional<PositionRow>();
  PositionRow found{job, static_cast<uint64_t>(query->ColumnInt(0)),
                    static_cast<uint64_t>(query->ColumnInt(1)), query->ColumnText(2)};
  query->Reset();
  return std::optional<PositionRow>(std::move(found));
}

absl::StatusOr<std::string> SqliteStore::PlanBytes(const std::string& hash) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query, Cached("SELECT bytes FROM plans WHERE hash=?"));
  query->Blob(1, hash);
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row)
    return absl::NotFoundError(absl::StrCat("store ", db_->path(), ": no plan of that hash"));
  std::string bytes = query->ColumnText(0);
  query->Reset();
  return bytes;
}

absl::StatusOr<std::vector<CheckpointRow>> SqliteStore::Checkpoints(const std::string& job) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT step, epoch, directory, bytes, committed_unix_ms, eval_loss, "
                          "has_eval, deleted FROM checkpoints WHERE job=? ORDER BY step"));
  query->Text(1, job);
  std::vector<CheckpointRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.job = job,
                    .step = query->ColumnInt(0),
                    .epoch = static_cast<uint64_t>(query->ColumnInt(1)),
                    .directory = query->ColumnText(2),
                    .bytes = query->ColumnInt(3),
                    .committed_unix_ms = query->ColumnInt(4),
                    .eval_loss = query->ColumnReal(5),
                    .has_eval = query->ColumnInt(6) != 0,
                    .deleted = query->ColumnInt(7) != 0});
  }
}

absl::StatusOr<std::optional<KeyRow>> SqliteStore::FindKey(const std::string& key) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query, Cached("SELECT body_hash, job FROM keys WHERE key=?"));
  query->Text(1, key);
  ASSIGN_OR_RETURN(const bool row, query->Step());
  if (!row) return std::optional<KeyRow>();
  KeyRow found{.key = key, .body_hash = query->ColumnText(0), .job = query->ColumnText(1)};
  query->Reset();
  return std::optional<KeyRow>(std::move(found));
}

absl::StatusOr<std::vector<LinkRow>> SqliteStore::Links() {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT gang, bytes, bytes_per_second FROM links ORDER BY gang, bytes"));
  std::vector<LinkRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.gang = query->ColumnText(0),
                    .bytes = query->ColumnInt(1),
                    .bytes_per_second = query->ColumnReal(2)});
  }
}

absl::StatusOr<std::vector<CordonRow>> SqliteStore::Cordons() {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(
      Statement * query,
      Cached("SELECT target, reason, since_unix_ms, automatic FROM cordons ORDER BY target"));
  std::vector<CordonRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.target = query->ColumnText(0),
                    .reason = query->ColumnText(1),
                    .since_unix_ms = query->ColumnInt(2),
                    .automatic = query->ColumnInt(3) != 0});
  }
}

absl::StatusOr<std::vector<TokenRow>> SqliteStore::Tokens() {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(
      Statement * query,
      Cached("SELECT id, user, role, hash, created_unix_ms, expires_unix_ms, revoked_unix_ms "
             "FROM tokens ORDER BY created_unix_ms, id"));
  std::vector<TokenRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.id = query->ColumnText(0),
                    .user = query->ColumnText(1),
                    .role = query->ColumnText(2),
                    .hash = query->ColumnText(3),
                    .created_unix_ms = query->ColumnInt(4),
                    .expires_unix_ms = query->ColumnInt(5),
                    .revoked_unix_ms = query->ColumnInt(6)});
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> SqliteStore::Events(const std::string& job, int64_t after,
                                                              int64_t limit) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(Statement * query,
                   Cached("SELECT id, proto FROM events WHERE job=? AND id>? ORDER BY id LIMIT ?"));
  query->Text(1, job).Int(2, after).Int(3, limit);
  std::vector<v1::JobEvent> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return events;
    events.push_back(ReadEvent(query->ColumnInt(0), query->ColumnText(1), job, db_->path()));
  }
}

}  // namespace coxswain::store
