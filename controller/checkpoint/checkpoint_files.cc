#include "controller/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/folders/written_folder.h"

namespace coxswain::checkpoint {
namespace {

// Says why the checkpoint-N that is there must stay.
absl::Status CheckSuperseded(Files* files, const std::string& target, const Manifest& ours) {
  absl::StatusOr<Manifest> there = ReadManifest(files, target);
  if (!there.ok() || there->job != ours.job) return absl::OkStatus();
  there = VerifyCheckpoint(files, target);
  if (there.ok() && there->job == ours.job &&
      std::make_pair(there->term, there->epoch) >= std::make_pair(ours.term, ours.epoch)) {
    return absl::AlreadyExistsError(absl::StrCat(target, ": is a valid checkpoint of job ",
                                                 there->job, ", term ", there->term, " gang epoch ",
                                                 there->epoch, "; job ", ours.job, " has term ",
                                                 ours.term, " gang epoch ", ours.epoch));
  }
  return absl::OkStatus();
}

WrittenFolder FolderOf(const std::string& output_dir, const std::string& directory) {
  return {.kind = WrittenFolder::Kind::kCheckpoint, .output_dir = output_dir, .path = directory};
}

// Moves a checkpoint that is not what its job wrote to a name that nobody looks at. Says so.
absl::StatusOr<std::string> SetAside(Files* files, const std::string& target,
                                     const std::string& what) {
  const std::string aside = target + ".damaged";
  std::string path = aside;
  for (int i = 2; files->Exists(path); ++i) path = absl::StrCat(aside, "-", i);
  RETURN_IF_ERROR(files->RenameDirectory(target, path));
  return absl::StrCat(what, ": ", target, " was moved to ", path,
                      ", where no job touches it; remove it when it is not needed");
}

absl::Status PutInPlace(Files* files, const std::string& staging, const WrittenFolder& folder,
                        Committed* committed) {
  ReadingLimit none;
  ASSIGN_OR_RETURN(const Finding there, LookAtFolder(files, folder, &none));
  if (there.state == Finding::State::kChanged) {
    ASSIGN_OR_RETURN(committed->set_aside, SetAside(files, folder.path, there.what));
  }
  ASSIGN_OR_RETURN(const Finding replaced, ReplaceWritten(files, staging, folder));
  if (replaced.job != committed->manifest.job) committed->replaced_job = replaced.job;
  return absl::OkStatus();
}

// So that who replaces the checkpoint need not read it.
absl::Status RecordTimeStamps(Files* files, const std::string& directory, Manifest* manifest) {
  for (ManifestFile& file : manifest->files) {
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(absl::StrCat(directory, "/", file.name)));
    file.modified_ns = facts.modified_ns;
  }
  return absl::OkStatus();
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

bool IsKnown(const Manifest& found, const KnownCheckpoint& known) {
  if (known.job.empty()) return true;
  return known.digest.empty() ? found.job == known.job : found.digest == known.digest;
}

absl::Status Replaced(const Manifest& found, const KnownCheckpoint& known) {
  if (found.job == known.job) {
    return absl::FailedPreconditionError(absl::StrCat(
        known.directory, ": its manifest has SHA-256 ", ToHex(found.digest), ", that of job ",
        known.job, " had ", ToHex(known.digest), ": it was written anew since"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(known.directory, ": job ", found.job, " replaced the checkpoint of job ",
                   known.job, " there; name job ", found.job,
                   " to use its checkpoint, or another step of job ", known.job));
}

// A job may have written its own checkpoint again without a record of it.
absl::Status VerifyAsKnown(Files* files, const KnownCheckpoint& known) {
  ASSIGN_OR_RETURN(const Manifest found, VerifyCheckpoint(files, known.directory));
  if (found.job == known.job || IsKnown(found, known)) return absl::OkStatus();
  return absl::DataLossError(Replaced(found, known).message());
}

absl::StatusOr<std::optional<ResumePoint>> Explicit(Files* files, const ResumeQuery& query,
                                                    std::vector<std::string>* warnings) {
  absl::Status first;
  for (const KnownCheckpoint& known : query.explicit_starts) {
    const std::string& directory = known.directory;
    absl::StatusOr<Manifest> manifest = Usable(files, query, directory);
    if (!manifest.ok()) {
      first.Update(manifest.status());
      warnings->push_back(PassedOver(manifest.status()));
      continue;
    }
    if (!IsKnown(*manifest, known)) return Replaced(*manifest, known);
    if (!query.any_recipe)
      RETURN_IF_ERROR(CheckRecipe(query.recipe, query.extend, directory, *manifest));
    return std::optional<ResumePoint>(ResumePoint{directory, *std::move(manifest)});
  }
  return first;
}

}  // namespace

std::string CheckpointDirectory(const std::string& output_dir, int64_t step) {
  return absl::StrCat(output_dir, "/checkpoint-", step);
}

absl::StatusOr<std::vector<std::string>> CheckpointsNewestFirst(Files* files,
                                                                const std::string& output_dir) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (!files->Exists(output_dir)) return std::vector<std::string>();
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(output_dir));
  for (const FileEntry& entry : entries) {
    const int64_t step = CheckpointStep(entry.name);
    if (entry.directory && step >= 0) found.emplace_back(step, output_dir + "/" + entry.name);
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<std::string> directories;
  for (auto& [step, directory] : found) directories.push_back(std::move(directory));
  return directories;
}

std::string StagingDirectory(const std::string& output_dir, const StagingOwner& owner,
                             int64_t step) {
  return absl::StrCat(StagingRoot(output_dir), "/step-", step, EndingOf(owner));
}

absl::StatusOr<Committed> CommitCheckpoint(Files* files, CommitRequest request,
                                           const Guard& guard) {
  Manifest& manifest = request.manifest;
  const std::string staging = StagingDirectory(
      request.output_dir, {manifest.job, manifest.term, manifest.epoch}, manifest.run.step);
  const std::string target = CheckpointDirectory(request.output_dir, manifest.run.step);
  const fault::Where where{.step = manifest.run.step};
  RETURN_IF_ERROR(fault::Reach(fault::Point::kManifestWrite, where));
  RETURN_IF_ERROR(
      files->WriteDurably(absl::StrCat(staging, "/", kTrainerStateName), request.trainer_state));
  manifest.files.push_back(FileAsWhole(kTrainerStateName, request.trainer_state));
  RETURN_IF_ERROR(RecordTimeStamps(files, staging, &manifest));
  RETURN_IF_ERROR(files->WriteDurably(absl::StrCat(staging, "/", kManifestName), ToJson(manifest)));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kManifestWritten, where));
  Committed committed;
  ASSIGN_OR_RETURN(committed.manifest, VerifyCheckpoint(files, staging));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointRename, where));
  RETURN_IF_ERROR(CheckSuperseded(files, target, manifest));
  const WrittenFolder folder = FolderOf(request.output_dir, target);
  RETURN_IF_ERROR(guard([&] { return PutInPlace(files, staging, folder, &committed); }));
  RETURN_IF_ERROR(fault::Reach(fault::Point::kCheckpointRenamed, where));
  return committed;
}

absl::Status DropCheckpoint(Files* files, const std::string& output_dir, const StagingOwner& owner,
                            const std::string& directory) {
  const int64_t step = CheckpointStep(directory.substr(directory.rfind('/') + 1));
  const std::string aside = StagingDirectory(output_dir, owner, step);
  RETURN_IF_ERROR(files->MakeDirs(StagingRoot(output_dir)));
  return RemoveWritten(files, FolderOf(output_dir, directory), aside);
}

bool Extends(const ResumePoint& point, const ResumeQuery& query) {
  return !query.any_recipe && point.manifest.recipe_hash != query.recipe.hash;
}

absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(Files* files, const ResumeQuery& query,
                                                           std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const std::vector<std::string> candidates,
                   CheckpointsNewestFirst(files, query.output_dir));
  absl::Status other_recipe;
  for (const std::string& directory : candidates) {
    absl::StatusOr<Manifest> manifest = ReadManifest(files, directory);
    if (absl::IsNotFound(manifest.status())) continue;  // written by another program
    if (manifest.ok() && query.own_only && manifest->job != query.job) continue;
    if (manifest.ok()) {
      const absl::Status recipe = CheckRecipe(query.recipe, query.extend, directory, *manifest);
      other_recipe.Update(recipe);  // the newest is named
      if (!recipe.ok()) continue;
    }
    if (manifest.ok()) manifest = Usable(files, query, directory);
    if (!manifest.ok()) {
      warnings->push_back(PassedOver(manifest.status()));
      continue;
    }
    return std::optional<ResumePoint>(ResumePoint{directory, *std::move(manifest)});
  }
  if (!query.explicit_starts.empty()) return Explicit(files, query, warnings);
  if (!query.own_only && !other_recipe.ok()) return other_recipe;
  return std::optional<ResumePoint>();
}

absl::StatusOr<size_t> FirstIntact(Files* files, const std::vector<KnownCheckpoint>& known,
                                   std::vector<std::string>* warnings) {
  std::string wrong;
  bool damaged = false;
  for (size_t i = 0; i < known.size(); ++i) {
    absl::Status status = VerifyAsKnown(files, known[i]);
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
