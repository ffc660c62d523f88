#include "controller/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/fault_point.h"
#include "common/status_macros.h"
#include "controller/replace_directory.h"

namespace coxswain::checkpoint {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";

// Says why the checkpoint-N that is there must stay.
absl::Status CheckSuperseded(Files* files, const std::string& target, const Manifest& ours) {
  if (!files->Exists(target)) return absl::OkStatus();
  const absl::StatusOr<Manifest> there = VerifyCheckpoint(files, target);
  if (there.ok() && there->job == ours.job &&
      std::make_pair(there->term, there->epoch) >= std::make_pair(ours.term, ours.epoch)) {
    return absl::AlreadyExistsError(absl::StrCat(target, ": is a valid checkpoint of job ",
                                                 there->job, ", term ", there->term, " gang epoch ",
                                                 there->epoch, "; job ", ours.job, " has term ",
                                                 ours.term, " gang epoch ", ours.epoch));
  }
  return absl::OkStatus();
}

struct Candidate {
  int64_t step = 0;
  std::string directory;
};

absl::StatusOr<std::vector<Candidate>> NewestFirst(Files* files, const std::string& output_dir) {
  std::vector<Candidate> candidates;
  if (!files->Exists(output_dir)) return candidates;
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(output_dir));
  for (const FileEntry& entry : entries) {
    const int64_t step = CheckpointStep(entry.name);
    if (entry.directory && step >= 0) candidates.push_back({step, output_dir + "/" + entry.name});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.step > b.step; });
  return candidates;
}

absl::Status OtherRecipe(const std::string& directory, const std::string& found,
                         const std::string& wanted) {
  return absl::FailedPreconditionError(absl::StrCat(
      directory, ": belongs to another recipe (", found.substr(0, 12), "..., this job has ",
      wanted.substr(0, 12),
      "...): model, data, batch or schedule differ. Give another checkpoint.output_dir, or "
      "checkpoint.resume: never to start over in this one"));
}

std::string PassedOver(const absl::Status& status) {
  return absl::StrCat("checkpoint passed over: ", std::string(status.message()));
}

absl::StatusOr<Manifest> Usable(Files* files, const ResumeQuery& query,
                                const std::string& directory) {
  const auto damaged = query.damaged.find(directory);
  if (damaged != query.damaged.end()) return absl::DataLossError(damaged->second);
  return CheckCheckpoint(files, directory);
}

absl::StatusOr<std::optional<ResumePoint>> Explicit(Files* files, const ResumeQuery& query,
                                                    std::vector<std::string>* warnings) {
  absl::Status first;
  for (const std::string& directory : query.explicit_dirs) {
    absl::StatusOr<Manifest> manifest = Usable(files, query, directory);
    if (!manifest.ok()) {
      first.Update(manifest.status());
      warnings->push_back(PassedOver(manifest.status()));
      continue;
    }
    if (manifest->recipe_hash != query.recipe_hash && !query.any_recipe) {
      return OtherRecipe(directory, manifest->recipe_hash, query.recipe_hash);
    }
    return std::optional<ResumePoint>(ResumePoint{directory, *std::move(manifest)});
  }
  return first;
}

}  // namespace

std::string CheckpointDirectory(const std::string& output_dir, int64_t step) {
  return absl::StrCat(output_dir, "/", std::string(kPrefix), step);
}

std::string StagingDirectory(const std::string& output_dir, const StagingOwner& owner,
                             int64_t step) {
  return absl::StrCat(StagingRoot(output_dir), "/step-", step, EndingOf(owner));
}

int64_t CheckpointStep(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && begin != end ? step : -1;
}

absl::StatusOr<Manifest> CommitCheckpoint(Files* files, CommitRequest request, const Guard& guard) {
  Manifest& manifest = request.manifest;
  const std::string staging = StagingDirectory(
      request.output_dir, {manifest.job, manifest.term, manifest.epoch}, manifest.run.step);
  const std::string target = CheckpointDirectory(request.output_dir, manifest.run.step);
  const fault::Where where{.step = manifest.run.step};
  RETURN_IF_ERROR(fault::Reach(fault::Point::kManifestWrite, where));
  RETURN_IF_ERROR(files->WriteDurably(staging + "/trainer_state.json", request.trainer_state));
  manifest.files.push_back(FileAsWhole("trainer_state.json", request.trainer_state));
  RETURN_IF_ERROR(files->WriteDurably(absl::StrCat(staging, "/", kManifestName), ToJson(manifest)));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kManifestWritten, where));
  ASSIGN_OR_RETURN(Manifest verified, VerifyCheckpoint(files, staging));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointRename, where));
  RETURN_IF_ERROR(CheckSuperseded(files, target, manifest));
  RETURN_IF_ERROR(guard([&] { return ReplaceDirectory(files, staging, target); }));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointRenamed, where));
  return verified;
}

absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(Files* files, const ResumeQuery& query,
                                                           std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, NewestFirst(files, query.output_dir));
  absl::Status other_recipe;
  for (const Candidate& candidate : candidates) {
    absl::StatusOr<Manifest> manifest = ReadManifest(files, candidate.directory);
    if (absl::IsNotFound(manifest.status())) continue;  // written by another program
    if (manifest.ok() && query.own_only && manifest->job != query.job) continue;
    if (manifest.ok() && manifest->recipe_hash != query.recipe_hash) {
      if (other_recipe.ok()) {  // the newest is named
        other_recipe = OtherRecipe(candidate.directory, manifest->recipe_hash, query.recipe_hash);
      }
      continue;
    }
    if (manifest.ok()) manifest = Usable(files, query, candidate.directory);
    if (!manifest.ok()) {
      warnings->push_back(PassedOver(manifest.status()));
      continue;
    }
    return std::optional<ResumePoint>(ResumePoint{candidate.directory, *std::move(manifest)});
  }
  if (!query.explicit_dirs.empty()) return Explicit(files, query, warnings);
  if (!query.own_only && !other_recipe.ok()) return other_recipe;
  return std::optional<ResumePoint>();
}

absl::StatusOr<size_t> FirstIntact(Files* files, const std::vector<std::string>& directories,
                                   std::vector<std::string>* warnings) {
  std::string wrong;
  bool damaged = false;
  for (size_t i = 0; i < directories.size(); ++i) {
    const absl::Status status = VerifyCheckpoint(files, directories[i]).status();
    if (status.ok()) return i;
    damaged = damaged || absl::IsDataLoss(status);
    warnings->push_back(PassedOver(status));
    absl::StrAppend(&wrong, "; ", std::string(status.message()));
  }
  if (damaged) return absl::DataLossError(absl::StrCat("no checkpoint of the job is whole", wrong));
  return absl::NotFoundError(
      absl::StrCat("no checkpoint of the job is there; is their file system mounted?", wrong));
}

std::vector<int64_t> Superseded(std::vector<int64_t> steps, int64_t keep, int64_t best_step) {
  std::sort(steps.begin(), steps.end(), std::greater<>());
  std::vector<int64_t> out;
  const size_t kept = static_cast<size_t>(std::max<int64_t>(keep, 2));
  for (size_t i = kept; i < steps.size(); ++i) {
    if (steps[i] != best_step) out.push_back(steps[i]);
  }
  return out;
}

}  // namespace coxswain::checkpoint
