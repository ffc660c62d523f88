// Who may call what: one row for each method of each service.
#ifndef COXSWAIN_COMMON_ACCESS_METHOD_TABLE_H_
#define COXSWAIN_COMMON_ACCESS_METHOD_TABLE_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/access/principal.h"

namespace coxswain::access {

struct MethodRow {
  std::string_view method;       // "Jobs.Submit": service and method
  std::vector<Role> roles = {};  // that may call it
  // The request names a job, and a user's call is about a job of that user's.
  bool own_job = false;
  bool mutates = false;  // something outlives the call: it is in the audit log
};

const std::vector<MethodRow>& MethodTable();

// Null: there is no such row, and nobody may call it.
const MethodRow* FindMethod(std::string_view method);

// PermissionDenied naming role and method, where the table has no such role for it.
absl::Status Authorize(const Principal& principal, std::string_view method);

}  // namespace coxswain::access

#endif  // COXSWAIN_COMMON_ACCESS_METHOD_TABLE_H_
