#include "controller/checkpoint/goes_on.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/manifest.h"
#include "controller/checkpoint/other_recipe.h"

namespace coxswain::checkpoint {
namespace {

// Checkpoints from which the job may go on, the newest first.
absl::StatusOr<std::vector<std::string>> Candidates(Files* files, const config::JobSpec& job) {
  if (config::OnlyGenerates(job)) return std::vector<std::string>();
  if (job.resume.starts_with('/')) return std::vector<std::string>{job.resume};
  if (job.resume != "auto") return std::vector<std::string>();
  return CheckpointsNewestFirst(files, job.output_dir);
}

}  // namespace

std::string JobThere(Files* files, const config::JobSpec& job) {
  const auto directories = Candidates(files, job);
  if (!directories.ok()) return "";
  for (const std::string& directory : *directories) {
    const absl::StatusOr<Manifest> found = ReadManifest(files, directory);
    if (found.ok()) return found->effective_json;
  }
  return "";
}

absl::Status CheckGoesOn(Files* files, const config::ParsedJob& job) {
  ASSIGN_OR_RETURN(const std::vector<std::string> directories, Candidates(files, job.spec));
  std::string newest;
  for (const std::string& directory : directories) {
    const absl::StatusOr<Manifest> found = ReadManifest(files, directory);
    if (!found.ok()) continue;  // no job's, or passed over when the job starts
    const std::optional<std::string> refusal = RefusalByKeys(directory, *found, job);
    if (!refusal || found->effective_json.empty()) return absl::OkStatus();
    if (newest.empty()) newest = *refusal;
  }
  return newest.empty() ? absl::OkStatus() : absl::InvalidArgumentError(newest);
}

void AddGoesOnErrors(Files* files, config::ParsedJob* job) {
  const absl::Status goes_on = CheckGoesOn(files, *job);
  if (!absl::IsInvalidArgument(goes_on)) return;
  const std::string key =
      job->spec.resume == "auto" ? "spec.checkpoint.output_dir" : "spec.checkpoint.resume";
  const auto line = job->lines.find(key);
  job->errors.push_back(
      {key, line == job->lines.end() ? 0 : line->second, std::string(goes_on.message())});
}

absl::StatusOr<std::optional<ResumePoint>> FindExtended(Files* files, const config::JobSpec& job,
                                                        const RecipeName& recipe) {
  const bool path = absl::StartsWith(job.resume, "/");
  if (job.resume != "auto" && !path) return std::optional<ResumePoint>();
  ResumeQuery query{.job = job.name,
                    .output_dir = job.output_dir,
                    .recipe = recipe,
                    .extend = job.extend,
                    .own_only = path};
  if (path) query.explicit_starts = {{.directory = job.resume}};
  std::vector<std::string> passed_over;
  ASSIGN_OR_RETURN(const std::optional<ResumePoint> point,
                   FindResumePoint(files, query, &passed_over));
  return point && Extends(*point, query) ? point : std::nullopt;
}

}  // namespace coxswain::checkpoint
