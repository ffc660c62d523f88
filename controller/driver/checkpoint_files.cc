#include "controller/driver/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"

namespace coxswain::driver {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";

std::string StagingRoot(const std::string& output_dir) { return output_dir + "/.staging"; }

// Makes room for checkpoint-N, or says why the one that is there must stay.
absl::Status MoveAside(Files* files, const std::string& target, const Manifest& ours,
                       const std::string& aside) {
  if (!files->Exists(target)) return absl::OkStatus();
  const absl::StatusOr<Manifest> there = VerifyCheckpoint(files, target);
  if (there.ok() && there->job == ours.job &&
      std::make_pair(there->term, there->epoch) >= std::make_pair(ours.term, ours.epoch)) {
    return absl::AlreadyExistsError(absl::StrCat(
        target, ": is a valid checkpoint of job ", there->job, ", term ", there->term, " epoch ",
        there->epoch, "; job ", ours.job, " has term ", ours.term, " epoch ", ours.epoch));
  }
  RETURN_IF_ERROR(files->RemoveAll(aside));
  return files->RenameDirectory(target, aside);
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

absl::StatusOr<std::optional<ResumePoint>> Explicit(Files* files, const ResumeQuery& query) {
  ASSIGN_OR_RETURN(Manifest manifest, VerifyCheckpoint(files, query.explicit_dir));
  if (manifest.recipe_hash != query.recipe_hash) {
    return OtherRecipe(query.explicit_dir, manifest.recipe_hash, query.recipe_hash);
  }
  return std::optional<ResumePoint>(ResumePoint{query.explicit_dir, std::move(manifest), {}});
}

}  // namespace

std::string CheckpointDirectory(const std::string& output_dir, int64_t step) {
  return absl::StrCat(output_dir, "/", std::string(kPrefix), step);
}

std::string StagingDirectory(const std::string& output_dir, int64_t step, uint64_t epoch) {
  return absl::StrCat(StagingRoot(output_dir), "/step-", step, ".epoch-", epoch);
}

int64_t CheckpointStep(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  int64_t step = -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && begin != end ? step : -1;
}

absl::StatusOr<Manifest> CommitCheckpoint(Files* files, CommitRequest request) {
  Manifest& manifest = request.manifest;
  const std::string staging =
      StagingDirectory(request.output_dir, manifest.run.step, manifest.epoch);
  const std::string target = CheckpointDirectory(request.output_dir, manifest.run.step);
  RETURN_IF_ERROR(files->WriteDurably(staging + "/trainer_state.json", request.trainer_state));
  manifest.files.push_back({"trainer_state.json",
                            static_cast<int64_t>(request.trainer_state.size()),
                            ToHex(Sha256(request.trainer_state))});
  RETURN_IF_ERROR(files->WriteDurably(absl::StrCat(staging, "/", kManifestName), ToJson(manifest)));
  ASSIGN_OR_RETURN(Manifest verified, VerifyCheckpoint(files, staging));
  const std::string aside = staging + ".replaced";
  RETURN_IF_ERROR(MoveAside(files, target, manifest, aside));
  RETURN_IF_ERROR(files->RenameDirectory(staging, target));
  RETURN_IF_ERROR(files->RemoveAll(aside));
  return verified;
}

absl::Status SweepStaging(Files* files, const std::string& output_dir, uint64_t epoch) {
  const std::string root = StagingRoot(output_dir);
  if (!files->Exists(root)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(root));
  for (const FileEntry& entry : entries) {
    const size_t at = entry.name.find(".epoch-");
    if (at == std::string::npos) continue;
    uint64_t found = 0;
    const char* begin = entry.name.data() + at + std::string_view(".epoch-").size();
    std::from_chars(begin, entry.name.data() + entry.name.size(), found);
    if (found < epoch) RETURN_IF_ERROR(files->RemoveAll(root + "/" + entry.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(Files* files, const ResumeQuery& query) {
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, NewestFirst(files, query.output_dir));
  std::vector<std::string> warnings;
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
    if (manifest.ok()) manifest = VerifyCheckpoint(files, candidate.directory);
    if (!manifest.ok()) {
      warnings.push_back(
          absl::StrCat("checkpoint passed over: ", std::string(manifest.status().message())));
      continue;
    }
    return std::optional<ResumePoint>(
        ResumePoint{candidate.directory, *std::move(manifest), std::move(warnings)});
  }
  if (!query.explicit_dir.empty()) return Explicit(files, query);
  if (!query.own_only && !other_recipe.ok()) return other_recipe;
  return std::optional<ResumePoint>();
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

}  // namespace coxswain::driver
