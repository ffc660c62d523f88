// One file on its way into the store of uploads.
#ifndef COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_WRITER_H_
#define COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/hash.h"
#include "common/files/regular_file.h"
#include "controller/uploads/upload_path.h"

namespace coxswain::uploads {

// Append until it is whole, Digest until nothing is left to digest, Commit once. What was appended
// stays when the writer goes, for the next one. Any thread, one at a time.
class UploadWriter {
 public:
  struct Place {
    Upload upload;
    std::string partial;            // the file that is written
    std::string whole;              // its name once it is verified
    int64_t there = 0;              // bytes of `partial` that are kept
    std::function<void()> release;  // when the writer goes
  };
  // Errors as ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<UploadWriter>> Open(Place place);
  ~UploadWriter();
  UploadWriter(const UploadWriter&) = delete;
  UploadWriter& operator=(const UploadWriter&) = delete;

  int64_t there() const { return there_; }
  bool whole() const { return there_ == place_.upload.bytes; }

  // OutOfRange: another offset than there(), or more bytes than were announced. ResourceExhausted:
  // the disk is full; what is written counts. Else as ErrnoStatus.
  absl::Status Append(int64_t offset, std::string_view bytes);
  // Digests up to `most` bytes of what an earlier writer left; true: there is more.
  absl::StatusOr<bool> Digest(int64_t most);
  // The file is durable under its name when this returns OK. DataLoss: it has another digest; what
  // came is removed.
  absl::Status Commit();

 private:
  UploadWriter(Place place, Descriptor file);

  const Place place_;
  const Descriptor file_;
  int64_t there_;
  int64_t digested_ = 0;
  Sha256Stream digest_;
};

}  // namespace coxswain::uploads

#endif  // COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_WRITER_H_
