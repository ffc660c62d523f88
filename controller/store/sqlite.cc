#include "controller/store/sqlite.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::store {
namespace {

absl::Status Failure(sqlite3* db, std::string_view what) {
  const char* file = sqlite3_db_filename(db, "main");
  const std::string message = absl::StrCat("store ", file == nullptr ? "" : file, ": ",
                                           std::string(what), ": ", sqlite3_errmsg(db));
  switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return absl::PermissionDeniedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::InternalError(message);
  }
}

constexpr std::string_view kNan = "nan";

}  // namespace

Statement::~Statement() { sqlite3_finalize(stmt_); }

Statement& Statement::Int(int index, int64_t value) {
  sqlite3_bind_int64(stmt_, index, value);
  return *this;
}
Statement& Statement::Real(int index, double value) {
  if (std::isnan(value)) return Text(index, kNan);
  sqlite3_bind_double(stmt_, index, value);
  return *this;
}
Statement& Statement::Text(int index, std::string_view value) {
  sqlite3_bind_text64(stmt_, index, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}
Statement& Statement::Blob(int index, std::string_view value) {
  sqlite3_bind_blob64(stmt_, index, value.data(), value.size(), SQLITE_TRANSIENT);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int rc = sqlite3_step(stmt_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  absl::Status status = Failure(db_, sqlite3_sql(stmt_));
  Reset();
  return status;
}

absl::Status Statement::Run() {
  while (true) {
    absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
  }
  Reset();
  return absl::OkStatus();
}

void Statement::Reset() {
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);
}

int64_t Statement::ColumnInt(int column) const { return sqlite3_column_int64(stmt_, column); }
double Statement::ColumnReal(int column) const {
  if (sqlite3_column_type(stmt_, column) == SQLITE_TEXT && ColumnText(column) == kNan) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(stmt_, column);
}
std::string Statement::ColumnText(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  const int bytes = sqlite3_column_bytes(stmt_, column);
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), bytes);
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int rc =
      sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (rc != SQLITE_OK) {
    absl::Status status = absl::FailedPreconditionError(absl::StrCat(
        "store ", path, ": cannot be opened: ", db ? sqlite3_errmsg(db) : sqlite3_errstr(rc)));
    sqlite3_close(db);
    return status;
  }
  sqlite3_busy_timeout(db, 2000);
  return std::unique_ptr<Database>(new Database(db, path));
}

Database::~Database() { sqlite3_close(db_); }

void Database::Interrupt() { sqlite3_interrupt(db_); }

absl::Status Database::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return Failure(db_, sql);
}

absl::StatusOr<std::unique_ptr<Statement>> Database::Prepare(const char* sql) {
  sqlite3_stmt* stmt = nullptr;
  if (sqlite3_prepare_v2(db_, sql, -1, &stmt, nullptr) != SQLITE_OK) return Failure(db_, sql);
  return std::make_unique<Statement>(db_, stmt);
}

// Source: sqlite.org/pragma.html#pragma_quick_check. A file so damaged that the check itself ends
// is damage like any other.
absl::StatusOr<std::vector<std::string>> FindDamage(const std::string& path,
                                                    const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> db, Database::Open(path));
  const std::stop_callback interrupt(stop, [&db] { db->Interrupt(); });
  std::vector<std::string> damage;
  const auto check = [&]() -> absl::Status {
    RETURN_IF_ERROR(db->Execute("PRAGMA query_only=ON"));
    ASSIGN_OR_RETURN(auto query, db->Prepare("PRAGMA quick_check(20)"));
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query->Step());
      if (!row) return absl::OkStatus();
      std::string sentence = query->ColumnText(0);
      if (sentence != "ok") damage.push_back(std::move(sentence));
    }
  };
  const absl::Status status = check();
  if (stop.stop_requested()) return absl::CancelledError(absl::StrCat("store ", path, ": stopped"));
  if (absl::IsDataLoss(status)) {
    damage.emplace_back(status.message());
  } else if (!status.ok()) {
    return status;
  }
  return damage;
}

}  // namespace coxswain::store
