#include "controller/cli/connect/upload.h"

#include <algorithm>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/regular_file.h"
#include "common/status_macros.h"
#include "controller/cli/machine/interrupt.h"

namespace coxswain::cli {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;  // the most that a message takes
constexpr int kLookMs = 500;              // at a file that another process brings

absl::StatusOr<std::string> ReadPiece(const RegularFile& file, int64_t offset) {
  std::string piece(static_cast<size_t>(std::min(kPieceBytes, file.bytes() - offset)), '\0');
  ASSIGN_OR_RETURN(const int64_t got,
                   file.ReadAt(offset, static_cast<int64_t>(piece.size()), piece.data()));
  if (got == static_cast<int64_t>(piece.size())) return piece;
  return absl::FailedPreconditionError(
      absl::StrCat(file.path(), " became shorter than ", file.bytes(),
                   " bytes while it was uploaded: upload it again when it is complete"));
}

// Another process brings the same file: what is there changed behind BeginUpload's back.
bool IsAnothers(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsAlreadyExists(status) || absl::IsOutOfRange(status);
}

// One attempt, from what BeginUpload told.
absl::Status Send(Client* client, const RegularFile& file, const v1::BeginUploadRequest& announced,
                  int64_t offset, const UploadHooks& hooks, UploadedFile* uploaded) {
  const auto read = [&](int64_t at) -> absl::StatusOr<std::string> {
    hooks.progress(at, file.bytes(), /*waits=*/false);
    uploaded->sent_bytes = std::max(uploaded->sent_bytes, at - offset);
    return ReadPiece(file, at);
  };
  RETURN_IF_ERROR(client->Upload(announced, offset, read).status());
  uploaded->sent_bytes = file.bytes() - offset;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UploadedFile> UploadFile(Client* client, const std::string& path,
                                        const UploadHooks& hooks) {
  ASSIGN_OR_RETURN(const RegularFile file, RegularFile::Open(path));
  if (file.bytes() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is empty: there is nothing to upload"));
  }
  UploadedFile uploaded;
  uploaded.bytes = file.bytes();
  ASSIGN_OR_RETURN(uploaded.sha256, Sha256HexOfFile(path, hooks.cancelled));
  v1::BeginUploadRequest announced;
  announced.set_name(std::filesystem::path(path).filename().string());
  announced.set_sha256(absl::HexStringToBytes(uploaded.sha256));
  announced.set_bytes(file.bytes());
  while (true) {
    ASSIGN_OR_RETURN(const v1::BeginUploadResponse there, client->BeginUpload(announced));
    uploaded.path = there.path();
    if (there.offset() >= file.bytes()) break;
    const absl::Status sent = Send(client, file, announced, there.offset(), hooks, &uploaded);
    if (sent.ok()) break;
    if (!IsAnothers(sent)) return sent;
    hooks.progress(there.offset(), file.bytes(), /*waits=*/true);
    if (WaitForInterrupt(kLookMs)) return absl::CancelledError("the upload was interrupted");
  }
  hooks.progress(file.bytes(), file.bytes(), /*waits=*/false);
  return uploaded;
}

}  // namespace coxswain::cli
