#include "controller/failure/errors.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "common/faults/failure_kind.h"
#include "common/outside_text.h"

namespace coxswain::failure {
namespace {

constexpr std::array<absl::StatusCode, 17> kCodes = {absl::StatusCode::kOk,
                                                     absl::StatusCode::kCancelled,
                                                     absl::StatusCode::kUnknown,
                                                     absl::StatusCode::kInvalidArgument,
                                                     absl::StatusCode::kDeadlineExceeded,
                                                     absl::StatusCode::kNotFound,
                                                     absl::StatusCode::kAlreadyExists,
                                                     absl::StatusCode::kPermissionDenied,
                                                     absl::StatusCode::kResourceExhausted,
                                                     absl::StatusCode::kFailedPrecondition,
                                                     absl::StatusCode::kAborted,
                                                     absl::StatusCode::kOutOfRange,
                                                     absl::StatusCode::kUnimplemented,
                                                     absl::StatusCode::kInternal,
                                                     absl::StatusCode::kUnavailable,
                                                     absl::StatusCode::kDataLoss,
                                                     absl::StatusCode::kUnauthenticated};

absl::StatusCode CodeOf(const std::string& name) {
  for (absl::StatusCode code : kCodes) {
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

bool OnlySawAPeerGo(const v1::Error& error) {
  return error.code() == "UNAVAILABLE" || error.code() == "CANCELLED" || error.code() == "ABORTED";
}

int Weight(const v1::Error& error) {
  if (error.kind() == v1::ERROR_KIND_BUG) return 4;
  if (error.kind() == v1::ERROR_KIND_USER) return 3;
  if (error.kind() == v1::ERROR_KIND_STORAGE || error.kind() == v1::ERROR_KIND_HOST) return 2;
  return OnlySawAPeerGo(error) ? 0 : 1;
}

}  // namespace

v1::Error MakeError(const absl::Status& status, const Where& where) {
  v1::Error error;
  error.set_code(absl::StatusCodeToString(status.code()));
  error.set_message(CleanText(std::string(status.message())));
  error.set_kind(FailureKind(status.code(), where.phase));
  error.set_rank(where.rank);
  error.set_host(CleanText(where.host, kMostNameBytes));
  error.set_phase(where.phase);
  return error;
}

v1::Error MakeBug(const absl::Status& status, const Where& where) {
  v1::Error error = MakeError(status, where);
  error.set_kind(v1::ERROR_KIND_BUG);
  return error;
}

v1::Error ToldBy(const Where& where, v1::Error told) {
  told.set_message(CleanText(told.message()));
  told.set_rank(where.rank);
  told.set_host(where.host);
  if (told.phase().empty()) told.set_phase(where.phase);
  if (told.kind() == v1::ERROR_KIND_UNSPECIFIED) {
    told.set_kind(FailureKind(CodeOf(told.code()), told.phase()));
  }
  return told;
}

absl::Status ToStatus(const v1::Error& error) {
  return absl::Status(CodeOf(error.code()), error.message());
}

const v1::Error& RootCause(const std::vector<v1::Error>& errors) {
  const v1::Error* root = &errors.front();
  for (const v1::Error& error : errors) {
    if (Weight(error) > Weight(*root)) root = &error;
  }
  return *root;
}

std::string Describe(const v1::Error& error) {
  std::string where;
  if (error.rank() >= 0) {
    where = absl::StrCat("rank ", error.rank(),
                         error.host().empty() ? "" : absl::StrCat(" (", error.host(), ")"));
  }
  if (!error.phase().empty()) absl::StrAppend(&where, where.empty() ? "" : ", ", error.phase());
  return OneLine(where.empty() ? error.message() : absl::StrCat(where, ": ", error.message()));
}

}  // namespace coxswain::failure
