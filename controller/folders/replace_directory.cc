#include "controller/folders/replace_directory.h"

#include "common/status_macros.h"

namespace coxswain {

absl::Status ReplaceDirectory(Files* files, const std::string& finished, const std::string& target,
                              const std::function<absl::Status(const std::string& aside)>& may_go) {
  const std::string aside = finished + kReplacedEnding;
  const bool replaces = files->Exists(target);
  if (replaces) {
    if (files->Exists(aside)) RETURN_IF_ERROR(may_go(aside));
    RETURN_IF_ERROR(files->RemoveAll(aside));
    RETURN_IF_ERROR(files->RenameDirectory(target, aside));
    if (absl::Status may = may_go(aside); !may.ok()) {
      files->RenameDirectory(aside, target).IgnoreError();  // `may` says more
      return may;
    }
  }
  if (absl::Status moved = files->RenameDirectory(finished, target); !moved.ok()) {
    if (replaces) files->RenameDirectory(aside, target).IgnoreError();  // `moved` says more
    return moved;
  }
  // What stays is removed when the staging directory is swept.
  if (replaces) files->RemoveAll(aside).IgnoreError();
  return absl::OkStatus();
}

absl::Status RestoreReplaced(Files* files, const std::string& aside, const std::string& target,
                             const std::function<absl::Status(const std::string& aside)>& may_go) {
  if (!files->Exists(target)) return files->RenameDirectory(aside, target);
  RETURN_IF_ERROR(may_go(aside));
  return files->RemoveAll(aside);
}

}  // namespace coxswain
