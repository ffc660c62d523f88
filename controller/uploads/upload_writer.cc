#include "controller/uploads/upload_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/private_folder.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::uploads {
namespace {

constexpr int64_t kReadBytes = 1 << 20;

}  // namespace

UploadWriter::UploadWriter(Place place, Descriptor file)
    : place_(std::move(place)), file_(std::move(file)), there_(place_.there) {}

UploadWriter::~UploadWriter() { place_.release(); }

absl::StatusOr<std::unique_ptr<UploadWriter>> UploadWriter::Open(Place place) {
  Descriptor file(open(place.partial.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0 || ftruncate(file.get(), place.there) != 0) {
    return ErrnoStatus(errno, "write", place.partial);
  }
  return std::unique_ptr<UploadWriter>(new UploadWriter(std::move(place), std::move(file)));
}

absl::Status UploadWriter::Append(int64_t offset, std::string_view bytes) {
  const Upload& upload = place_.upload;
  if (offset != there_) {
    return absl::OutOfRangeError(absl::StrCat(upload.name, ": a piece begins at ", offset, ", but ",
                                              there_, " bytes are there"));
  }
  if (static_cast<int64_t>(bytes.size()) > upload.bytes - there_) {
    return absl::OutOfRangeError(absl::StrCat(upload.name, ": ", bytes.size(), " bytes come at ",
                                              offset, " of a file of ", upload.bytes));
  }
  while (!bytes.empty()) {
    const ssize_t put = pwrite(file_.get(), bytes.data(), bytes.size(), there_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", place_.partial);
    const auto written = static_cast<size_t>(put);
    if (digested_ == there_) {
      digest_.Update(bytes.substr(0, written));
      digested_ += put;
    }
    there_ += put;
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> UploadWriter::Digest(int64_t most) {
  std::vector<char> read(static_cast<size_t>(std::min(most, kReadBytes)));
  const int64_t end = std::min(there_, digested_ + most);
  while (digested_ < end) {
    const auto wanted =
        static_cast<size_t>(std::min(static_cast<int64_t>(read.size()), end - digested_));
    const ssize_t got = pread(file_.get(), read.data(), wanted, digested_);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(got < 0 ? errno : EIO, "read", place_.partial);
    digest_.Update({read.data(), static_cast<size_t>(got)});
    digested_ += got;
  }
  return digested_ < there_;
}

absl::Status UploadWriter::Commit() {
  const Upload& upload = place_.upload;
  const std::string digest = ToHex(digest_.Finish());
  if (digest != upload.sha256) {
    unlink(place_.partial.c_str());
    return absl::DataLossError(absl::StrCat(
        upload.name, " came with the SHA-256 ", digest, ", not ", upload.sha256,
        ": it changed while it was uploaded, or was damaged on the way: upload it again"));
  }
  if (fsync(file_.get()) != 0) return ErrnoStatus(errno, "write", place_.partial);
  const std::filesystem::path folder = std::filesystem::path(place_.whole).parent_path();
  RETURN_IF_ERROR(MakePrivateFolder(folder.string()));
  if (std::rename(place_.partial.c_str(), place_.whole.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to", place_.whole);
  }
  const std::filesystem::path owner = folder.parent_path();
  for (const std::filesystem::path& made : {folder, owner, owner.parent_path()}) {
    RETURN_IF_ERROR(SyncDirectory(made.string()));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::uploads
