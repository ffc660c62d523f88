#include "controller/checkpoint/staging.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/replace_directory.h"
#include "controller/written_names.h"

namespace coxswain::checkpoint {
namespace {

// "step-40.<owner>" -> "checkpoint-40", "export-model.<owner>" -> "model"; empty: nothing of ours.
// The names of releases before this form had no owner or began it with "epoch-".
std::string TargetOf(const std::string& name) {
  const std::string_view kind = std::string_view(name).substr(0, name.find('.'));
  if (kind == "export-adapter") return kAdapterName;
  if (kind == "export-model") return kModelName;
  constexpr std::string_view kStep = "step-";
  if (!kind.starts_with(kStep)) return "";
  const std::string checkpoint =
      absl::StrCat("checkpoint-", std::string(kind.substr(kStep.size())));
  return CheckpointStep(checkpoint) < 0 ? "" : checkpoint;
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
    const std::string target = TargetOf(entry.name);
    if (target.empty() && !entry.name.starts_with("nonce-")) continue;
    if (!target.empty() && entry.name.ends_with(kReplacedEnding)) {
      RETURN_IF_ERROR(RestoreReplaced(files, path, absl::StrCat(output_dir, "/", target)));
    } else {
      RETURN_IF_ERROR(files->RemoveAll(path));
    }
  }
  return absl::OkStatus();
}

}  // namespace coxswain::checkpoint
