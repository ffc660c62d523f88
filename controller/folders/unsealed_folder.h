// Folders without a manifest: of a user, or of a release that wrote none into exports.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_UNSEALED_FOLDER_H_
#define COXSWAIN_CONTROLLER_FOLDERS_UNSEALED_FOLDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "controller/folders/folder_finding.h"
#include "controller/runtime/files.h"

namespace coxswain {

// kAdopted where every one of `entries` is a file that jobs write, and something else shows that
// one did: the words of our model card in an adapter, a checkpoint with its manifest beside a model
// or beside what is left of a checkpoint that was being deleted. Else kForeign.
absl::StatusOr<Finding> LookWithoutManifest(Files* files, const WrittenFolder& folder,
                                            const std::vector<FileEntry>& entries);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_UNSEALED_FOLDER_H_
