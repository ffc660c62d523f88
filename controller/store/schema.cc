#include "controller/store/schema.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::store {
namespace {

// `proto` holds a serialised coxswain.v1 message; the other columns are what queries need.
constexpr char kCreate[] = R"sql(
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS jobs(
  id TEXT PRIMARY KEY, ord INTEGER NOT NULL UNIQUE, base_dir TEXT NOT NULL,
  stop_at_step INTEGER NOT NULL, drain_goal INTEGER NOT NULL, proto BLOB NOT NULL,
  drain_step INTEGER NOT NULL DEFAULT -1, yields_to TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS epochs(
  job TEXT NOT NULL, epoch INTEGER NOT NULL, term INTEGER NOT NULL, plan_hash BLOB NOT NULL,
  fingerprint TEXT NOT NULL, world_size INTEGER NOT NULL, start_step INTEGER NOT NULL,
  gemm_table TEXT NOT NULL DEFAULT '', ranks TEXT NOT NULL DEFAULT '',
  PRIMARY KEY(job, epoch)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evals(
  job TEXT NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, point TEXT NOT NULL,
  PRIMARY KEY(job, epoch, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions(
  job TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
  state TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS preparations(
  job TEXT PRIMARY KEY, unended INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plans(hash BLOB PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS steps(
  job TEXT NOT NULL, step INTEGER NOT NULL, epoch INTEGER NOT NULL, loss_bits INTEGER NOT NULL,
  gnorm_bits INTEGER NOT NULL, tokens INTEGER NOT NULL, learning_rate REAL NOT NULL,
  superseded INTEGER NOT NULL, PRIMARY KEY(job, step, epoch)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoints(
  job TEXT NOT NULL, step INTEGER NOT NULL, epoch INTEGER NOT NULL, directory TEXT NOT NULL,
  bytes INTEGER NOT NULL, committed_unix_ms INTEGER NOT NULL, eval_loss REAL NOT NULL,
  has_eval INTEGER NOT NULL, deleted INTEGER NOT NULL, PRIMARY KEY(job, step)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys(
  key TEXT PRIMARY KEY, body_hash BLOB NOT NULL, job TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, proto BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS events_of_job ON events(job, id);
CREATE TABLE IF NOT EXISTS links(
  gang TEXT NOT NULL, bytes INTEGER NOT NULL, bytes_per_second REAL NOT NULL,
  PRIMARY KEY(gang, bytes)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cordons(
  target TEXT PRIMARY KEY, reason TEXT NOT NULL, since_unix_ms INTEGER NOT NULL,
  automatic INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens(
  id TEXT PRIMARY KEY, user TEXT NOT NULL, role TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
  created_unix_ms INTEGER NOT NULL, expires_unix_ms INTEGER NOT NULL,
  revoked_unix_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS deletions(job TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES('schema', 0), ('term', 0);
)sql";

constexpr char kToSchema3[] = "ALTER TABLE epochs ADD COLUMN gemm_table TEXT NOT NULL DEFAULT ''";
constexpr char kToSchema4[] = "ALTER TABLE epochs ADD COLUMN ranks TEXT NOT NULL DEFAULT ''";
constexpr char kToSchema5[] =
    "ALTER TABLE jobs ADD COLUMN drain_step INTEGER NOT NULL DEFAULT -1;"
    "ALTER TABLE jobs ADD COLUMN yields_to TEXT NOT NULL DEFAULT ''";

}  // namespace

absl::Status EnsureSchema(Database* db) {
  RETURN_IF_ERROR(
      db->Execute("CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) "
                  "WITHOUT ROWID"));
  int64_t found = 0;
  {
    ASSIGN_OR_RETURN(auto query, db->Prepare("SELECT value FROM meta WHERE key='schema'"));
    ASSIGN_OR_RETURN(const bool row, query->Step());
    if (row) found = query->ColumnInt(0);
  }
  if (found > kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("store ", db->path(), ": schema ", found,
                     " was written by a newer release; this one knows ", kSchemaVersion,
                     ". Start the newer release, or use another --state-dir"));
  }
  RETURN_IF_ERROR(db->Execute("BEGIN IMMEDIATE"));
  absl::Status made;
  if (found == 1 || found == 2) made = db->Execute(kToSchema3);
  if (made.ok() && found >= 1 && found <= 3) made = db->Execute(kToSchema4);
  if (made.ok() && found >= 1 && found <= 4) made = db->Execute(kToSchema5);
  if (made.ok()) made = db->Execute(kCreate);
  if (made.ok()) {
    const std::string set =
        absl::StrCat("UPDATE meta SET value=", kSchemaVersion, " WHERE key='schema'");
    made = db->Execute(set.c_str());
  }
  if (!made.ok()) {
    db->Execute("ROLLBACK").IgnoreError();
    return made;
  }
  return db->Execute("COMMIT");
}

}  // namespace coxswain::store
