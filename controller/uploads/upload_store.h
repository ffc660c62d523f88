// The files that users brought, on the disk of the controller.
#ifndef COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_STORE_H_
#define COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_STORE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "controller/uploads/upload_path.h"
#include "controller/uploads/upload_writer.h"

namespace coxswain::uploads {

// Below the folder `root`:
//
//   OWNER/SHA256/NAME         a file, verified
//   OWNER/SHA256.incomplete   what has come of one, from its beginning on
//
// Thread-safe. Outlives its writers.
class UploadStore {
 public:
  struct Options {
    std::string root;              // UploadsFolder of the state directory
    int64_t most_bytes_per_owner;  // of an owner's files, those that are on their way too
    int64_t most_files_per_owner = 10'000;
    int64_t kept_free_bytes = int64_t{1} << 30;  // the store of the jobs lies on the same disk
    std::chrono::hours keep_incomplete{7 * 24};  // since their last byte came
  };

  // Makes the folder, and removes what came of files whose rest nobody brought in time. Errors as
  // ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<UploadStore>> Open(const Options& options);

  // How much of the file is there: its offset for Begin; `upload.bytes`: it is complete. The last
  // byte of a file that was not verified counts as missing. ResourceExhausted: the rest has no
  // room, by the owner's limit or on the disk. InvalidArgument: it is there with another size.
  absl::StatusOr<int64_t> BytesThere(const Upload& upload);

  // Takes the file for its caller until the writer is gone. Errors as BytesThere, and Aborted:
  // another call brings it; OutOfRange: `offset` is not what BytesThere says; AlreadyExists: it is
  // complete. Else as ErrnoStatus.
  absl::StatusOr<std::unique_ptr<UploadWriter>> Begin(const Upload& upload, int64_t offset);

 private:
  explicit UploadStore(Options options) : options_(std::move(options)) {}
  absl::Status CheckRoom(const Upload& upload, int64_t there) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<int64_t> There(const Upload& upload) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RemoveOldPartials();
  void Release(const std::string& partial);

  const Options options_;
  Mutex mu_;
  // Announced sizes of what is on its way, by path.
  std::map<std::string, int64_t> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::uploads

#endif  // COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_STORE_H_
