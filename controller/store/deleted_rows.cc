#include "controller/store/deleted_rows.h"

#include "common/status_macros.h"

namespace coxswain::store {
namespace {

absl::Status RunFor(Database* db, const char* sql, const std::string& job) {
  ASSIGN_OR_RETURN(auto statement, db->Prepare(sql));
  return statement->Text(1, job).Run();
}

// True: steps or events of the job are left.
absl::StatusOr<bool> DeletePieceOf(Database* db, const std::string& job) {
  for (const char* sql :
       {"DELETE FROM events WHERE id IN "
        "(SELECT id FROM events WHERE job=?1 ORDER BY id LIMIT ?2)",
        "DELETE FROM steps WHERE job=?1 AND step<="
        "(SELECT max(step) FROM (SELECT step FROM steps WHERE job=?1 ORDER BY step LIMIT ?2))"}) {
    ASSIGN_OR_RETURN(auto remove, db->Prepare(sql));
    RETURN_IF_ERROR(remove->Text(1, job).Int(2, kRowsOfAPiece).Run());
  }
  ASSIGN_OR_RETURN(auto left, db->Prepare("SELECT EXISTS(SELECT 1 FROM events WHERE job=?1) OR "
                                          "EXISTS(SELECT 1 FROM steps WHERE job=?1)"));
  ASSIGN_OR_RETURN(const bool row, left->Text(1, job).Step());
  return row && left->ColumnInt(0) != 0;
}

}  // namespace

absl::Status DeleteJob(Database* db, const std::string& job) {
  for (const char* sql : {"DELETE FROM jobs WHERE id=?", "DELETE FROM epochs WHERE job=?",
                          "DELETE FROM evals WHERE job=?", "DELETE FROM positions WHERE job=?",
                          "DELETE FROM checkpoints WHERE job=?", "DELETE FROM keys WHERE job=?",
                          "DELETE FROM preparations WHERE job=?"}) {
    RETURN_IF_ERROR(RunFor(db, sql, job));
  }
  ASSIGN_OR_RETURN(const bool more, DeletePieceOf(db, job));
  return more ? RunFor(db, "INSERT OR IGNORE INTO deletions VALUES(?)", job) : absl::OkStatus();
}

absl::StatusOr<bool> DeletePiece(Database* db) {
  std::string job;
  {
    ASSIGN_OR_RETURN(auto query, db->Prepare("SELECT job FROM deletions LIMIT 1"));
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (!row) return false;
    job = query->ColumnText(0);
  }
  ASSIGN_OR_RETURN(const bool more, DeletePieceOf(db, job));
  if (!more) RETURN_IF_ERROR(RunFor(db, "DELETE FROM deletions WHERE job=?", job));
  return true;
}

}  // namespace coxswain::store
