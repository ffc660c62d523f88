// Checkpoint directories on shared storage: staging, commit, search, retention. Runs in a lane.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_CHECKPOINT_FILES_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/checkpoint/manifest.h"
#include "controller/checkpoint/other_recipe.h"
#include "controller/checkpoint/staging.h"
#include "controller/files.h"
#include "controller/guard.h"
#include "controller/written_folder.h"
#include "controller/written_names.h"

namespace coxswain::checkpoint {

std::string CheckpointDirectory(const std::string& output_dir, int64_t step);
// Those that lie there, whoever wrote them; none where there is no such directory.
absl::StatusOr<std::vector<std::string>> CheckpointsNewestFirst(Files* files,
                                                                const std::string& output_dir);
// Where a gang's ranks write the shards of a step; no other gang's, of whatever job, has it.
std::string StagingDirectory(const std::string& output_dir, const StagingOwner& owner,
                             int64_t step);
struct CommitRequest {
  std::string output_dir;
  Manifest manifest;          // files: the shards, as the ranks reported them
  std::string trainer_state;  // trainer_state.json, added to the files
};

struct Committed {
  Manifest manifest;
  std::string replaced_job = {};  // another job, whose checkpoint of this step is gone
  std::string set_aside = {};     // tells where a checkpoint went that had been changed; else empty
};

// Phase two: writes trainer_state.json and manifest.json into the staging directory, fsynced, and
// renames it to checkpoint-N, after reading it back once: DataLoss when a shard is not what its
// rank reported. A checkpoint-N that is there already is replaced, but for one of the same job with
// this (term, epoch) or a later: AlreadyExists. One that is damaged, or that somebody changed, is
// set aside as checkpoint-N.damaged; FailedPrecondition where something there is no job's.
// `guard` runs the renames.
absl::StatusOr<Committed> CommitCheckpoint(Files* files, CommitRequest request,
                                           const Guard& guard = Unguarded);

// Deletes a superseded checkpoint of `output_dir`, by way of .staging. FailedPrecondition where it
// is not as a job wrote it: then it stays.
absl::Status DropCheckpoint(Files* files, const std::string& output_dir, const StagingOwner& owner,
                            const std::string& directory);

// A checkpoint that a job is known to have.
struct KnownCheckpoint {
  std::string directory;
  std::string digest = {};  // of its manifest; empty: of a release that kept none
  std::string job = {};     // that has it; empty: whoever wrote it, it is taken as it is
};

struct ResumeQuery {
  std::string job;
  std::string output_dir;
  RecipeName recipe;
  bool extend = false;      // recipes of another length and the same stem too
  bool own_only = false;    // resume: never, or an explicit start: only what this job wrote
  bool any_recipe = false;  // an explicit one is read, not gone on with: its recipe may be any
  // Start from the first of these that is whole when the job has no checkpoint of its own.
  std::vector<KnownCheckpoint> explicit_starts = {};
  // Directories in which a rank found a damaged block, and what it said: passed over.
  std::map<std::string, std::string> damaged = {};
};

struct ResumePoint {
  std::string directory;
  Manifest manifest;
};

// Whether what is found there is gone on with under another number of steps.
bool Extends(const ResumePoint& point, const ResumeQuery& query);

// The newest checkpoint to start from, as CheckCheckpoint finds it whole: the ranks check what they
// read of it. nullopt: start fresh. `warnings`: what was passed over. FailedPrecondition when
// output_dir holds checkpoints of other recipes only, an explicit one has another recipe (each key
// that differs is named with both values; where only their lengths differ both lengths and what to
// do), or another job replaced it (both named); explicit ones of which none is whole give the error
// of the first.
absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(Files* files, const ResumeQuery& query,
                                                           std::vector<std::string>* warnings);

// Index of the first of `known` that verifies and is that job's. None is: DataLoss, or NotFound
// where none can be read at all; it says what is wrong with each.
absl::StatusOr<size_t> FirstIntact(Files* files, const std::vector<KnownCheckpoint>& known,
                                   std::vector<std::string>* warnings);

// Which of `steps` (committed checkpoints, any order) to delete: all but the newest `keep` (at
// least 2) and `best_step` (-1: none).
std::vector<int64_t> Superseded(std::vector<int64_t> steps, int64_t keep, int64_t best_step);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_CHECKPOINT_FILES_H_
