// Early return on error for absl::Status and absl::StatusOr (the packaged Abseil has no such
// macros).
//
//   RETURN_IF_ERROR(Write(path));
//   ASSIGN_OR_RETURN(std::string text, Read(path));
#ifndef COXSWAIN_COMMON_STATUS_MACROS_H_
#define COXSWAIN_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define COXSWAIN_CONCAT_INNER(a, b) a##b
#define COXSWAIN_CONCAT(a, b) COXSWAIN_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                          \
  do {                                                 \
    absl::Status coxswain_status = (expr);             \
    if (!coxswain_status.ok()) return coxswain_status; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(COXSWAIN_CONCAT(coxswain_status_or_, __LINE__), lhs, expr)

// `lhs` may declare a variable and `tmp` is one: neither can stand in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)    \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()
// NOLINTEND(bugprone-macro-parentheses)

#endif  // COXSWAIN_COMMON_STATUS_MACROS_H_
