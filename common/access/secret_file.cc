#include "common/access/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/read_file.h"
#include "common/identity.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::access {
namespace {

constexpr int kSecretDigits = 64;

absl::Status CheckPrivate(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return ErrnoStatus(errno, "read", path);
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is of user ", found.st_uid, ", and this process of user ", geteuid(),
                     ": a secret that another user made is not taken"));
  }
  if ((found.st_mode & (S_IRWXO | S_IWGRP)) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(path, " can be read or written by others: chmod 600 ", path,
                   ", and draw another secret if others had it"));
}

// 0, or the errno of what failed.
int WritePrivately(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  const ssize_t put = write(fd, text.data(), text.size());
  int error = put < 0 ? errno : put < static_cast<ssize_t>(text.size()) ? ENOSPC : 0;
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  return error;
}

}  // namespace

std::string DrawSecret() { return RandomHex(kSecretDigits); }

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  RETURN_IF_ERROR(CheckPrivate(path));
  ASSIGN_OR_RETURN(std::string secret, ReadFile(path, kMostSecretBytes));
  absl::StripAsciiWhitespace(&secret);
  if (secret.size() >= kLeastSecretBytes) return secret;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " holds ", secret.size(), " bytes: a secret has at least ", kLeastSecretBytes));
}

absl::Status WriteSecret(const std::string& path, const std::string& secret) {
  const std::string fresh = absl::StrCat(path, ".", RandomHex(8));
  int error = WritePrivately(fresh, secret + "\n");
  if (error == 0 && std::rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(fresh.c_str());
  return ErrnoStatus(error, "write", path);
}

absl::StatusOr<std::string> ReadOrDrawSecret(const std::string& path) {
  absl::StatusOr<std::string> found = ReadSecret(path);
  if (!absl::IsNotFound(found.status())) return found;
  RETURN_IF_ERROR(WriteSecret(path, DrawSecret()));
  return ReadSecret(path);
}

}  // namespace coxswain::access
