#include "common/hub/cache/partial_blob.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr char kMark[] = "coxswain";
constexpr int64_t kNumberBytes = 8;
constexpr int64_t kReadBytes = 1 << 20;

}  // namespace

PartialBlob::PartialBlob(std::string path, std::string etag, int64_t bytes, Descriptor file)
    : path_(std::move(path)),
      etag_(std::move(etag)),
      bytes_(bytes),
      file_(std::move(file)),
      digest_(etag_, bytes) {}

absl::StatusOr<std::unique_ptr<PartialBlob>> PartialBlob::Open(const std::string& path,
                                                               const std::string& etag,
                                                               int64_t bytes, int64_t piece_bytes) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0) return ErrnoStatus(errno, "write", path);
  std::unique_ptr<PartialBlob> blob(new PartialBlob(path, etag, bytes, std::move(file)));
  if (!blob->ReadNumbers()) RETURN_IF_ERROR(blob->Restart(piece_bytes));
  return blob;
}

void PartialBlob::Cut(int64_t piece_bytes) {
  piece_bytes_ = piece_bytes;
  pieces_.clear();
  done_ = 0;
  for (int64_t begin = 0; begin < bytes_; begin += piece_bytes) {
    pieces_.push_back({.begin = begin, .bytes = std::min(piece_bytes, bytes_ - begin)});
  }
}

// False where the file is not one of these bytes that WriteNumbers wrote.
bool PartialBlob::ReadNumbers() {
  struct stat found {};
  int64_t head[2] = {0, 0};
  if (fstat(file_.get(), &found) != 0 ||
      pread(file_.get(), head, sizeof(head), bytes_) != sizeof(head) ||
      std::memcmp(head, kMark, kNumberBytes) != 0 || head[1] <= 0) {
    return false;
  }
  const int64_t begin = bytes_ + 2 * kNumberBytes;
  const int64_t size = (bytes_ + head[1] - 1) / head[1] * kNumberBytes;
  if (found.st_size != begin + size) return false;
  Cut(head[1]);
  std::vector<int64_t> done(pieces_.size());
  if (pread(file_.get(), done.data(), static_cast<size_t>(size), begin) != size) return false;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (done[i] < 0 || done[i] > pieces_[i].bytes) return false;
    pieces_[i].done = done[i];
    done_ += done[i];
  }
  return true;
}

absl::Status PartialBlob::WriteNumbers() {
  std::vector<int64_t> numbers(2 + pieces_.size(), 0);
  std::memcpy(numbers.data(), kMark, kNumberBytes);
  numbers[1] = piece_bytes_;
  int64_t written = 0;
  return WriteAt(bytes_,
                 {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)},
                 &written);
}

absl::Status PartialBlob::Restart(int64_t piece_bytes) {
  Cut(piece_bytes);
  digest_ = BlobDigest(etag_, bytes_);
  digested_ = 0;
  if (ftruncate(file_.get(), 0) != 0) return ErrnoStatus(errno, "write", path_);
  return WriteNumbers();
}

absl::Status PartialBlob::WriteAt(int64_t offset, std::string_view bytes, int64_t* written) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(file_.get(), bytes.data(), bytes.size(), offset + *written);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ErrnoStatus(errno, "write", path_);
    *written += put;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status PartialBlob::Append(size_t index, std::string_view bytes) {
  Piece& piece = pieces_[index];
  if (static_cast<int64_t>(bytes.size()) > piece.bytes - piece.done) {
    return absl::DataLossError(absl::StrCat(path_, ": the server sent more than the ", piece.bytes,
                                            " bytes from ", piece.begin, " on"));
  }
  const int64_t begin = piece.begin + piece.done;
  int64_t written = 0;
  const absl::Status status = WriteAt(begin, bytes, &written);
  // Only so that Commit has less to wait for: what fails, it reports.
  (void)sync_file_range(file_.get(), begin, written, SYNC_FILE_RANGE_WRITE);
  // What comes in order is digested while it is at hand.
  if (begin == digested_) {
    digest_.Update(bytes.substr(0, static_cast<size_t>(written)));
    digested_ += written;
  }
  piece.done += written;
  done_ += written;
  const int64_t number = bytes_ + kNumberBytes * static_cast<int64_t>(2 + index);
  int64_t noted = 0;
  const std::string_view done(reinterpret_cast<const char*>(&piece.done), sizeof(piece.done));
  RETURN_IF_ERROR(WriteAt(number, done, &noted));
  return status;
}

absl::StatusOr<int64_t> PartialBlob::Digest(int64_t most) {
  int64_t digested = 0;
  if (read_.empty()) read_.resize(kReadBytes);
  while (digested < most && digested_ < bytes_) {
    const Piece& piece = pieces_[static_cast<size_t>(digested_ / piece_bytes_)];
    const int64_t there = piece.begin + piece.done - digested_;
    if (there <= 0) break;
    const ssize_t got = pread(file_.get(), read_.data(),
                              static_cast<size_t>(std::min(there, kReadBytes)), digested_);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(got < 0 ? errno : EIO, "read", path_);
    digest_.Update({read_.data(), static_cast<size_t>(got)});
    digested_ += got;
    digested += got;
  }
  return digested;
}

absl::Status PartialBlob::Commit(const std::string& blob) {
  if (ftruncate(file_.get(), bytes_) != 0 || fsync(file_.get()) != 0) {
    return ErrnoStatus(errno, "write", path_);
  }
  if (std::rename(path_.c_str(), blob.c_str()) != 0) return ErrnoStatus(errno, "rename to", blob);
  return absl::OkStatus();
}

}  // namespace coxswain::hub
