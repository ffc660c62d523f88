#include "controller/uploads/upload_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/private_folder.h"
#include "common/format.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::uploads {
namespace {

namespace fs = std::filesystem;

constexpr char kIncomplete[] = ".incomplete";

std::string WholePath(const std::string& root, const Upload& upload) {
  return absl::StrCat(OwnerFolder(root, upload.owner), "/", upload.sha256, "/", upload.name);
}

std::string PartialPath(const std::string& root, const Upload& upload) {
  return absl::StrCat(OwnerFolder(root, upload.owner), "/", upload.sha256, kIncomplete);
}

// Bytes of a regular file; -1: there is none.
int64_t SizeOf(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) ? found.st_size : -1;
}

std::string Bytes(int64_t bytes) { return FormatBytes(static_cast<uint64_t>(bytes)); }

}  // namespace

absl::StatusOr<std::unique_ptr<UploadStore>> UploadStore::Open(const Options& options) {
  RETURN_IF_ERROR(MakePrivateFolder(options.root));
  std::unique_ptr<UploadStore> store(new UploadStore(options));
  store->RemoveOldPartials();
  return store;
}

void UploadStore::RemoveOldPartials() {
  const auto oldest = fs::file_time_type::clock::now() - options_.keep_incomplete;
  std::error_code error;
  std::vector<fs::path> old;
  for (fs::recursive_directory_iterator entry(options_.root, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const bool partial = entry.depth() == 1 && entry->is_regular_file(gone) &&
                         absl::EndsWith(entry->path().string(), kIncomplete);
    if (partial && entry->last_write_time(gone) < oldest && !gone) old.push_back(entry->path());
  }
  for (const fs::path& path : old) fs::remove(path, error);
}

absl::StatusOr<int64_t> UploadStore::There(const Upload& upload) {
  const int64_t whole = SizeOf(WholePath(options_.root, upload));
  if (whole == upload.bytes) return whole;
  if (whole >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(UploadText(upload), " has ", whole, " bytes, not ", upload.bytes));
  }
  const int64_t partial = SizeOf(PartialPath(options_.root, upload));
  if (partial < 0 || partial > upload.bytes) return 0;  // the digest would be another's
  return std::min(partial, upload.bytes - 1);
}

absl::Status UploadStore::CheckRoom(const Upload& upload, int64_t there) {
  const std::string folder = OwnerFolder(options_.root, upload.owner);
  const std::string own = PartialPath(options_.root, upload);
  int64_t used = 0, files = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    const int64_t bytes = path == own ? -1 : SizeOf(path);
    if (bytes < 0) continue;
    const auto announced = open_.find(path);
    used += announced == open_.end() ? bytes : announced->second;
    ++files;
  }
  if (files >= options_.most_files_per_owner) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there are ", files, " uploads already, allowed: ", options_.most_files_per_owner,
        ": ask the operator of the controller to remove some in ", folder));
  }
  if (upload.bytes > options_.most_bytes_per_owner - used) {
    return absl::ResourceExhaustedError(absl::StrCat(
        upload.name, " has ", Bytes(upload.bytes), ", and ", Bytes(used), " of the ",
        Bytes(options_.most_bytes_per_owner), " for uploads are taken: ask the operator of the ",
        "controller to remove some in ", folder, ", or for a larger --upload-gib"));
  }
  const fs::space_info disk = fs::space(options_.root, error);
  const int64_t free = error ? 0 : static_cast<int64_t>(disk.available);
  const int64_t needed = upload.bytes - there;
  if (error || needed <= free - options_.kept_free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk of ", options_.root, " has ", Bytes(free), " left, of which ",
                   Bytes(options_.kept_free_bytes), " stay free; ", upload.name, " needs ",
                   Bytes(needed), " more: ask the operator of the controller to make room"));
}

absl::StatusOr<int64_t> UploadStore::BytesThere(const Upload& upload) {
  MutexLock lock(mu_);
  ASSIGN_OR_RETURN(const int64_t there, There(upload));
  if (there < upload.bytes) RETURN_IF_ERROR(CheckRoom(upload, there));
  return there;
}

absl::StatusOr<std::unique_ptr<UploadWriter>> UploadStore::Begin(const Upload& upload,
                                                                 int64_t offset) {
  const std::string partial = PartialPath(options_.root, upload);
  MutexLock lock(mu_);
  if (open_.count(partial) > 0) {
    return absl::AbortedError(absl::StrCat(upload.name, " is being uploaded by another call of ",
                                           "its owner: ask again how much of it is there"));
  }
  ASSIGN_OR_RETURN(const int64_t there, There(upload));
  if (there == upload.bytes) {
    return absl::AlreadyExistsError(absl::StrCat(UploadText(upload), " is there already"));
  }
  if (offset != there) {
    return absl::OutOfRangeError(absl::StrCat(upload.name, ": the upload goes on at ", offset,
                                              ", but ", there, " bytes are there"));
  }
  RETURN_IF_ERROR(CheckRoom(upload, there));
  RETURN_IF_ERROR(MakePrivateFolder(OwnerFolder(options_.root, upload.owner)));
  ASSIGN_OR_RETURN(std::unique_ptr<UploadWriter> writer,
                   UploadWriter::Open({.upload = upload,
                                       .partial = partial,
                                       .whole = WholePath(options_.root, upload),
                                       .there = there,
                                       .release = [this, partial] { Release(partial); }}));
  open_[partial] = upload.bytes;
  return writer;
}

void UploadStore::Release(const std::string& partial) {
  MutexLock lock(mu_);
  open_.erase(partial);
}

}  // namespace coxswain::uploads
