#include "common/access/local_secrets.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/access/secret_file.h"
#include "common/files/private_folder.h"
#include "common/posix_status.h"
#include "common/status_macros.h"

namespace coxswain::access {
namespace {

// In the order in which they are tried.
std::vector<std::string> Roots() {
  const char* chosen = std::getenv("COXSWAIN_RUNTIME_DIR");
  if (chosen != nullptr && *chosen == '/') return {chosen};
  const std::string of_login = absl::StrCat("/run/user/", geteuid());
  std::vector<std::string> roots;
  if (::access(of_login.c_str(), W_OK | X_OK) == 0) roots.push_back(of_login + "/coxswain");
  roots.push_back(absl::StrCat("/tmp/coxswain-", geteuid()));
  return roots;
}

// Anybody may make a folder in /tmp under the name that is ours.
absl::Status CheckOurs(const std::string& folder) {
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0) return ErrnoStatus(errno, "look at", folder);
  if (S_ISDIR(found.st_mode) && found.st_uid == geteuid() && (found.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(folder, " is not a folder of user ", geteuid(),
                   " alone: remove it, or set COXSWAIN_RUNTIME_DIR to another"));
}

absl::Status MakeOurs(const std::string& folder) {
  RETURN_IF_ERROR(MakePrivateFolder(folder));
  return CheckOurs(folder);
}

absl::Status LeaveIn(const std::string& root, int port, const std::string& name,
                     const std::string& secret) {
  const std::string folder = absl::StrCat(root, "/", port);
  RETURN_IF_ERROR(MakeOurs(root));
  RETURN_IF_ERROR(MakeOurs(folder));
  const std::string path = absl::StrCat(folder, "/", name);
  const absl::StatusOr<std::string> found = ReadSecret(path);
  const bool same = found.ok() && *found == secret;
  if (same && utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0) return absl::OkStatus();
  return WriteSecret(path, secret);
}

}  // namespace

absl::StatusOr<std::string> FindLocalSecret(int port, const std::string& name) {
  std::vector<std::string> missing;
  for (const std::string& root : Roots()) {
    const std::string folder = absl::StrCat(root, "/", port);
    const std::string path = absl::StrCat(folder, "/", name);
    missing.push_back(path);
    absl::Status ours = CheckOurs(root);
    if (ours.ok()) ours = CheckOurs(folder);
    if (absl::IsNotFound(ours)) continue;
    RETURN_IF_ERROR(ours);
    absl::StatusOr<std::string> secret = ReadSecret(path);
    if (!absl::IsNotFound(secret.status())) return secret;
  }
  return absl::NotFoundError(absl::StrCat("there is no ", absl::StrJoin(missing, " and no "),
                                          ", which a controller on port ", port,
                                          " of this user leaves"));
}

absl::Status LeaveLocalSecret(int port, const std::string& name, const std::string& secret) {
  absl::Status left;
  for (const std::string& root : Roots()) {
    left = LeaveIn(root, port, name, secret);
    if (left.ok()) break;
  }
  return left;
}

void RemoveLocalSecrets(int port) {
  for (const std::string& root : Roots()) {
    const std::string folder = absl::StrCat(root, "/", port);
    for (const char* name : {kOperatorToken, kJoinToken}) {
      unlink(absl::StrCat(folder, "/", name).c_str());
    }
    rmdir(folder.c_str());
  }
}

}  // namespace coxswain::access
