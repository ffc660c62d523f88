#include "controller/folders/folder_finding.h"

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "controller/folders/written_names.h"

namespace coxswain {

std::string WrittenFolder::ManifestPath() const {
  return absl::StrCat(path, "/", kind == Kind::kCheckpoint ? kManifestName : kExportManifestName);
}

WrittenFolder AdapterFolder(const std::string& output_dir) {
  return {WrittenFolder::Kind::kAdapter, output_dir, absl::StrCat(output_dir, "/", kAdapterName)};
}

WrittenFolder ModelFolder(const std::string& output_dir) {
  return {WrittenFolder::Kind::kModel, output_dir, absl::StrCat(output_dir, "/", kModelName)};
}

WrittenFolder CheckpointFolder(const std::string& output_dir, const std::string& name) {
  return {WrittenFolder::Kind::kCheckpoint, output_dir, absl::StrCat(output_dir, "/", name)};
}

}  // namespace coxswain
