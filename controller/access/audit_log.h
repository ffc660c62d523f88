// Who did what, when, from where, and what came of it: a line of JSON each, appended.
#ifndef COXSWAIN_CONTROLLER_ACCESS_AUDIT_LOG_H_
#define COXSWAIN_CONTROLLER_ACCESS_AUDIT_LOG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/access/principal.h"
#include "common/mutex.h"

namespace coxswain::access {

struct AuditEntry {
  int64_t time_unix_ms = 0;
  std::optional<Principal> principal = {};  // nothing: nobody that is known
  std::string peer = {};                    // as gRPC tells it
  std::string method = {};                  // "Jobs.Submit"
  std::string object = {};                  // job, token or worker that it is about; may be empty
  absl::Status result = {};
};

// {"time_unix_ms", "role", "name", "peer", "method", "object", "code", "message"}: what was done
// goes to FOLDER/audit.jsonl, what was refused (Unauthenticated, PermissionDenied) to
// FOLDER/refused.jsonl, so that strangers who try again and again push nothing out. Files have mode
// 0600; one that has grown to kMostBytes becomes FILE.1, that FILE.2, up to FILE.4. Thread-safe.
class AuditLog {
 public:
  static constexpr int64_t kMostBytes = int64_t{16} << 20;
  static constexpr int kOlder = 4;

  explicit AuditLog(const std::string& folder, int64_t most_bytes = kMostBytes)
      : done_(folder + "/audit.jsonl", most_bytes),
        refused_(folder + "/refused.jsonl", most_bytes) {}

  // A line that cannot be written is told in the log, with what it says.
  void Add(const AuditEntry& entry);

 private:
  class File {
   public:
    File(std::string path, int64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    absl::Status Append(const std::string& line);

   private:
    absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
    void Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

    const std::string path_;
    const int64_t most_bytes_;
    Mutex mu_;
    int fd_ ABSL_GUARDED_BY(mu_) = -1;
    int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  };

  File done_, refused_;
};

}  // namespace coxswain::access

#endif  // COXSWAIN_CONTROLLER_ACCESS_AUDIT_LOG_H_
