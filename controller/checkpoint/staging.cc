#include "controller/checkpoint/staging.h"

#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "controller/folders/folder_finding.h"
#include "controller/folders/replace_directory.h"
#include "controller/folders/written_folder.h"
#include "controller/folders/written_names.h"

namespace coxswain::checkpoint {
namespace {

// "step-40.<owner>" -> checkpoint-40, "export-model.<owner>" -> model; none: nothing of ours.
// The names of releases before this form had no owner or began it with "epoch-".
std::optional<WrittenFolder> TargetOf(const std::string& output_dir, const std::string& name) {
  const std::string_view kind = std::string_view(name).substr(0, name.find('.'));
  if (kind == "export-adapter") return AdapterFolder(output_dir);
  if (kind == "export-model") return ModelFolder(output_dir);
  constexpr std::string_view kStep = "step-";
  if (!kind.starts_with(kStep)) return std::nullopt;
  const std::string checkpoint =
      absl::StrCat("checkpoint-", std::string(kind.substr(kStep.size())));
  if (CheckpointStep(checkpoint) < 0) return std::nullopt;
  return CheckpointFolder(output_dir, checkpoint);
}

// A folder that was finished once, and that another program may have written to before it was moved
// here. One without a manifest was never finished: nobody else knew of it.
bool WasFinished(Files* files, const WrittenFolder& folder) {
  return files->Exists(folder.ManifestPath());
}

// What holds a file that no job wrote stays.
absl::Status Sweep(Files* files, const WrittenFolder& target, const std::string& path) {
  const auto may_go = [&](const std::string& there) {
    return CheckMayGo(files, target.At(there)).status();
  };
  absl::Status swept;
  if (path.ends_with(kReplacedEnding)) {
    swept = RestoreReplaced(files, path, target.path, may_go);
  } else {
    if (WasFinished(files, target.At(path))) swept = may_go(path);
    if (swept.ok()) return files->RemoveAll(path);
  }
  if (!absl::IsFailedPrecondition(swept)) return swept;
  log::Warning("a file that no job wrote stays in .staging",
               {{"error", std::string(swept.message())}});
  return absl::OkStatus();
}

// What lies behind a link is somebody else's to write and to remove.
absl::Status CheckNoLink(Files* files, const std::string& output_dir) {
  const std::string root = StagingRoot(output_dir);
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(root));
  if (facts.kind != PathFacts::Kind::kLink) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(root, " is a symbolic link, and a job writes and removes only below its own ",
                   "checkpoint.output_dir. Remove the link, or give another "
                   "checkpoint.output_dir"));
}

}  // namespace

std::string StagingRoot(const std::string& output_dir) { return output_dir + "/.staging"; }

std::string EndingOf(const StagingOwner& owner) {
  return absl::StrCat(".", owner.job, ".t", owner.term, ".e", owner.epoch);
}

absl::Status SweepStaging(Files* files, const std::string& output_dir) {
  const std::string root = StagingRoot(output_dir);
  if (!files->Exists(output_dir)) return absl::OkStatus();
  RETURN_IF_ERROR(CheckNoLink(files, output_dir));
  if (!files->Exists(root)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(root));
  for (const FileEntry& entry : entries) {
    const std::string path = absl::StrCat(root, "/", entry.name);
    if (const std::optional<WrittenFolder> target = TargetOf(output_dir, entry.name)) {
      RETURN_IF_ERROR(Sweep(files, *target, path));
    } else if (entry.name.starts_with("nonce-")) {
      RETURN_IF_ERROR(files->RemoveAll(path));
    }
  }
  return absl::OkStatus();
}

absl::Status LeaveStaging(Files* files, const std::string& output_dir) {
  RETURN_IF_ERROR(SweepStaging(files, output_dir));
  return files->RemoveIfEmpty(StagingRoot(output_dir));
}

}  // namespace coxswain::checkpoint
