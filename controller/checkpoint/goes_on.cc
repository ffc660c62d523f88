#include "controller/checkpoint/goes_on.h"

#include <optional>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "controller/checkpoint/checkpoint_files.h"
#include "controller/checkpoint/manifest.h"
#include "controller/checkpoint/other_recipe.h"

namespace coxswain::checkpoint {

absl::Status CheckGoesOn(Files* files, const config::ParsedJob& job) {
  const std::string& resume = job.spec.resume;
  const bool path = resume.starts_with('/');
  if (config::OnlyGenerates(job.spec) || (resume != "auto" && !path)) return absl::OkStatus();
  std::vector<std::string> directories = {resume};
  if (!path) {
    ASSIGN_OR_RETURN(directories, CheckpointsNewestFirst(files, job.spec.output_dir));
  }
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

}  // namespace coxswain::checkpoint
