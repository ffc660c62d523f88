#include "controller/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/outside_text.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::access {
namespace {

constexpr size_t kMostTextBytes = 1024;

std::string LineOf(const AuditEntry& entry) {
  nlohmann::ordered_json line;
  line["time_unix_ms"] = entry.time_unix_ms;
  line["role"] = entry.principal ? std::string(RoleName(entry.principal->role)) : std::string();
  line["name"] = entry.principal ? entry.principal->name : std::string();
  line["peer"] = CleanText(entry.peer, kMostNameBytes);
  line["method"] = entry.method;
  line["object"] = CleanText(entry.object, kMostTextBytes);
  line["code"] = absl::StatusCodeToString(entry.result.code());
  line["message"] = CleanText(std::string(entry.result.message()), kMostTextBytes);
  return line.dump() + "\n";
}

bool Refused(const absl::Status& result) {
  return absl::IsUnauthenticated(result) || absl::IsPermissionDenied(result);
}

}  // namespace

void AuditLog::Add(const AuditEntry& entry) {
  const std::string line = LineOf(entry);
  File& file = Refused(entry.result) ? refused_ : done_;
  if (const absl::Status put = file.Append(line); !put.ok()) {
    log::Error("a line of the audit log cannot be written",
               {{"line", line}, {"error", std::string(put.message())}});
  }
}

AuditLog::File::~File() {
  MutexLock lock(mu_);
  if (fd_ >= 0) close(fd_);
}

absl::Status AuditLog::File::Open() {
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat found {};
  if (fd_ < 0 || fstat(fd_, &found) != 0) return ErrnoStatus(errno, "append to", path_);
  bytes_ = found.st_size;
  return absl::OkStatus();
}

// The oldest goes.
void AuditLog::File::Rotate() {
  close(fd_);
  fd_ = -1;
  for (int i = kOlder - 1; i >= 0; --i) {
    const std::string from = i == 0 ? path_ : absl::StrCat(path_, ".", i);
    std::rename(from.c_str(), absl::StrCat(path_, ".", i + 1).c_str());
  }
}

absl::Status AuditLog::File::Append(const std::string& line) {
  MutexLock lock(mu_);
  const auto size = static_cast<int64_t>(line.size());
  if (fd_ >= 0 && bytes_ + size > most_bytes_ && bytes_ > 0) Rotate();
  if (fd_ < 0) RETURN_IF_ERROR(Open());
  const ssize_t put = write(fd_, line.data(), line.size());
  if (put < 0) return ErrnoStatus(errno, "append to", path_);
  bytes_ += put;
  return put == size ? absl::OkStatus() : ErrnoStatus(ENOSPC, "append to", path_);
}

}  // namespace coxswain::access
