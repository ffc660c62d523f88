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
#include "controller/folders/written_folder.h"
#include "controller/folders/written_names.h"
#include "controller/runtime/files.h"
#include "controller/runtime/held_file.h"

namespace coxswain::checkpoint {

std::string CheckpointDirectory(const std::string& output_dir, int64_t step);
// The checkpoint directories in `output_dir`, whichever job wrote them. Empty when output_dir does
// not exist.
absl::StatusOr<std::vector<std::string>> CheckpointsNewestFirst(Files* files,
                                                                const std::string& output_dir);
// The directory into which a gang's ranks write the shards of a step. No other gang of any job uses
// the same path.
std::string StagingDirectory(const std::string& output_dir, const StagingOwner& owner,
                             int64_t step);
struct CommitRequest {
  std::string output_dir;
  Manifest manifest;          // its files are the shards, as the ranks reported them
  std::string trainer_state;  // trainer_state.json, added to the files
};

struct Committed {
  Manifest manifest;
  std::string replaced_job = {};  // other job whose checkpoint was replaced; else empty
  std::string set_aside = {};     // says where a changed checkpoint was moved; else empty
};

// Phase two of a save: writes trainer_state.json and manifest.json into the staging directory,
// fsynced, reads everything back once, and renames the directory to checkpoint-N. `guard` runs the
// renames. DataLoss: a shard differs from what its rank reported. An existing checkpoint-N is
// replaced. It stays if it belongs to the same job with this or a later (term, epoch):
// AlreadyExists. A damaged or changed one is moved to checkpoint-N.damaged. FailedPrecondition: the
// existing checkpoint-N was not written by a job.
absl::StatusOr<Committed> CommitCheckpoint(Files* files, CommitRequest request,
                                           const Guard& guard = Unguarded);

// Deletes a superseded checkpoint of `output_dir`: moves it into .staging, then removes it.
// FailedPrecondition, and the checkpoint stays, when it differs from what a job wrote.
absl::Status DropCheckpoint(Files* files, const std::string& output_dir, const StagingOwner& owner,
                            const std::string& directory);

// A checkpoint that the controller recorded for a job.
struct KnownCheckpoint {
  std::string directory;
  std::string digest = {};  // digest of its manifest; empty: an older release recorded none
  std::string job = {};     // job that owns it; empty: a checkpoint of any job is accepted
};

struct ResumeQuery {
  std::string job;
  std::string output_dir;
  RecipeName recipe;
  bool extend = false;      // also accept a recipe with the same stem and another length
  bool own_only = false;    // accept only this job's checkpoints in output_dir
  bool any_recipe = false;  // accept an explicit start of any recipe: it is only read
  // Used when output_dir has no checkpoint to start from: the job starts from the first whole one.
  std::vector<KnownCheckpoint> explicit_starts = {};
  // Directories in which a rank found a damaged block, with its message. They are passed over.
  std::map<std::string, std::string> damaged = {};
};

struct ResumePoint {
  std::string directory;
  Manifest manifest;
};

// True when the job would continue from `point` with another number of steps.
bool Extends(const ResumePoint& point, const ResumeQuery& query);

// The newest checkpoint to start from that passes CheckCheckpoint. The ranks check its blocks when
// they read them. nullopt: start fresh. `warnings` gets a line for each checkpoint that was passed
// over. FailedPrecondition: output_dir holds only checkpoints of other recipes; or an explicit
// start has another recipe, or was replaced by another job. The message names each key that differs
// with both values; both lengths and what to do when only the lengths differ; or both jobs. When no
// explicit start is whole, returns the error of the first.
absl::StatusOr<std::optional<ResumePoint>> FindResumePoint(Files* files, const ResumeQuery& query,
                                                           std::vector<std::string>* warnings);

// Index of the first of `known` that verifies and belongs to its job. Without one: DataLoss if a
// checkpoint is damaged, else NotFound. The message has the fault of each.
absl::StatusOr<size_t> FirstIntact(Files* files, const std::vector<KnownCheckpoint>& known,
                                   std::vector<std::string>* warnings);

// The steps to delete among `steps` (committed checkpoints, any order): all except the newest
// `keep` (at least 2) and `best_step` (-1: none).
std::vector<int64_t> Superseded(std::vector<int64_t> steps, int64_t keep, int64_t best_step);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_CHECKPOINT_FILES_H_
