#include "controller/store/page_check.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/store/sqlite.h"

namespace coxswain::store {

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
