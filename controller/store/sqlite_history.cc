#include "controller/store/sqlite_history.h"

#include <algorithm>

#include "common/status_macros.h"
#include "controller/store/event_row.h"

namespace coxswain::store {

absl::StatusOr<std::unique_ptr<SqliteHistory>> SqliteHistory::Open(const std::string& path) {
  ASSIGN_OR_RETURN(auto db, Database::Open(path));
  RETURN_IF_ERROR(db->Execute("PRAGMA query_only=ON"));
  return std::unique_ptr<SqliteHistory>(new SqliteHistory(std::move(db)));
}

absl::StatusOr<std::vector<StepRow>> SqliteHistory::Steps(const std::string& job,
                                                          int64_t from_step) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(auto query,
                   db_->Prepare("SELECT step, epoch, loss_bits, gnorm_bits, tokens, learning_rate "
                                "FROM steps WHERE job=? AND step>=? AND superseded=0 "
                                "ORDER BY step"));
  query->Text(1, job).Int(2, from_step);
  std::vector<StepRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return rows;
    rows.push_back({.job = job,
                    .step = query->ColumnInt(0),
                    .epoch = static_cast<uint64_t>(query->ColumnInt(1)),
                    .loss_bits = static_cast<uint64_t>(query->ColumnInt(2)),
                    .gnorm_bits = static_cast<uint64_t>(query->ColumnInt(3)),
                    .tokens = query->ColumnInt(4),
                    .learning_rate = query->ColumnReal(5)});
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> SqliteHistory::EventsAfter(const std::string& job,
                                                                     int64_t after, int64_t limit) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(auto query, db_->Prepare("SELECT id, proto FROM events WHERE job=? AND id>? "
                                            "ORDER BY id LIMIT ?"));
  query->Text(1, job).Int(2, after).Int(3, limit);
  std::vector<v1::JobEvent> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return events;
    events.push_back(ReadEvent(query->ColumnInt(0), query->ColumnText(1), job, db_->path()));
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> SqliteHistory::NewestEvents(const std::string& job,
                                                                      int64_t limit) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(auto query, db_->Prepare("SELECT id, proto FROM events WHERE job=? "
                                            "ORDER BY id DESC LIMIT ?"));
  query->Text(1, job).Int(2, limit);
  std::vector<v1::JobEvent> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) break;
    events.push_back(ReadEvent(query->ColumnInt(0), query->ColumnText(1), job, db_->path()));
  }
  std::reverse(events.begin(), events.end());
  return events;
}

}  // namespace coxswain::store
