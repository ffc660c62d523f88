// The little of SQLite's C interface that the store uses, with statuses.
#ifndef COXSWAIN_CONTROLLER_STORE_SQLITE_H_
#define COXSWAIN_CONTROLLER_STORE_SQLITE_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace coxswain::store {

// A prepared statement. Bind by 1-based index, then Step; Reset before the next use.
class Statement {
 public:
  Statement(sqlite3* db, sqlite3_stmt* stmt) : db_(db), stmt_(stmt) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Int(int index, int64_t value);
  Statement& Real(int index, double value);  // NaN too, which SQLite itself makes NULL
  Statement& Text(int index, std::string_view value);
  Statement& Blob(int index, std::string_view value);

  absl::StatusOr<bool> Step();  // true: a row is there
  absl::Status Run();           // Step to the end, then Reset
  void Reset();

  int64_t ColumnInt(int column) const;
  double ColumnReal(int column) const;
  std::string ColumnText(int column) const;  // also blobs

 private:
  sqlite3* db_;
  sqlite3_stmt* stmt_;
};

class Database {
 public:
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::Status Execute(const char* sql);  // statements without values or results
  absl::StatusOr<std::unique_ptr<Statement>> Prepare(const char* sql);
  // Any thread: what runs ends soon, with an error.
  void Interrupt();
  const std::string& path() const { return path_; }

 private:
  Database(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}
  sqlite3* db_;
  std::string path_;
};

// Whether the pages of the store's file are what SQLite wrote.

// Reads the whole file over a connection of its own, beside those that write. It takes seconds per
// GB. Returns a sentence for each damage, at most 20; none: the file is sound. Cancelled: `stop`
// was set.
absl::StatusOr<std::vector<std::string>> FindDamage(const std::string& path,
                                                    const std::stop_token& stop);

}  // namespace coxswain::store

#endif  // COXSWAIN_CONTROLLER_STORE_SQLITE_H_
