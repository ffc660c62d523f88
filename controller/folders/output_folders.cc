#include "controller/folders/output_folders.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/folders/written_names.h"

namespace coxswain {
namespace {

constexpr int64_t kMostRead = int64_t{512} << 20;

std::string NameOf(const WrittenFolder& folder) {
  return folder.path.substr(folder.path.rfind('/') + 1);
}

}  // namespace

absl::StatusOr<std::vector<WrittenFolder>> ReplaceableFolders(Files* files,
                                                              const config::JobSpec& job) {
  std::vector<WrittenFolder> folders;
  if (config::OnlyGenerates(job)) return folders;
  const std::string& out = job.output_dir;
  const bool lora = job.adapter == config::Adapter::kLora;
  if (lora) folders.push_back(AdapterFolder(out));
  if (!lora || job.export_merge) folders.push_back(ModelFolder(out));
  if (!files->Exists(out)) return folders;
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(out));
  for (const FileEntry& entry : entries) {
    if (CheckpointStep(entry.name) >= 0) folders.push_back(CheckpointFolder(out, entry.name));
  }
  return folders;
}

absl::Status OutputFindings::Refusal(const std::string& output_dir) const {
  if (refused.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint.output_dir ", output_dir,
      " holds files that this job would replace, although no job wrote them or somebody changed "
      "them since: ",
      absl::StrJoin(refused, "; "),
      ". None of them is touched. Move them away, or give another checkpoint.output_dir"));
}

std::vector<std::string> OutputFindings::Warnings(const std::string& output_dir,
                                                  const std::string& me) const {
  std::vector<std::string> warnings;
  for (const std::string& folder : adopted) {
    warnings.push_back(absl::StrCat(
        folder, " has no manifest, and every file in it is one that jobs write: it is taken for ",
        "one of an earlier release, and is replaced when this job writes there"));
  }
  for (const auto& [job, names] : by_job) {
    if (job == me) continue;
    warnings.push_back(absl::StrCat("checkpoint.output_dir ", output_dir, " holds ",
                                    absl::StrJoin(names, ", "), " of job ", job,
                                    ": this job replaces those that it writes itself"));
  }
  return warnings;
}

absl::StatusOr<OutputFindings> LookAtOutput(Files* files, const config::JobSpec& job) {
  OutputFindings findings;
  const std::string staging = absl::StrCat(job.output_dir, "/.staging");
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(staging));
  if (facts.kind != PathFacts::Kind::kAbsent && facts.kind != PathFacts::Kind::kDirectory) {
    findings.refused.push_back(absl::StrCat(staging, " is no directory, as jobs make it"));
  }
  ASSIGN_OR_RETURN(const std::vector<WrittenFolder> folders, ReplaceableFolders(files, job));
  ReadingLimit limit{.bytes = kMostRead};
  for (const WrittenFolder& folder : folders) {
    ASSIGN_OR_RETURN(const Finding found, LookAtFolder(files, folder, &limit));
    if (!found.may_go()) findings.refused.push_back(found.what);
    if (found.state == Finding::State::kAdopted) findings.adopted.push_back(folder.path);
    if (found.state == Finding::State::kOurs) findings.by_job[found.job].push_back(NameOf(folder));
  }
  return findings;
}

}  // namespace coxswain
