// manifest.json, which makes a directory a checkpoint. A checkpoint is valid if and only if its
// manifest verifies.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest_files.h"
#include "common/config/schema/recipe_keys.h"
#include "controller/checkpoint/run_state.h"
#include "controller/folders/seal_folder.h"
#include "controller/runtime/files.h"

namespace coxswain::checkpoint {

struct Manifest {
  std::string job = {};
  uint64_t term = 0;
  uint64_t epoch = 0;
  std::string recipe_hash = {};  // lower-case hex; jobs of this recipe may resume from it
  // Lower-case hex hash of the recipe without its length. Older releases wrote none: then it is
  // empty and total_steps is 0.
  std::string recipe_stem = {};
  int64_t total_steps = 0;  // of the recipe
  // The resolved job that wrote the checkpoint, as JSON. Empty: an older release wrote none.
  std::string effective_json = {};
  config::KeyValues recipe_facts = {};  // the part of the recipe that comes from files and workers
  std::string plan_hash = {};           // lower-case hex
  std::string fingerprint =
      {};  // of the ranks; a gang with another one may resume but is not compared bit by bit
  int32_t world_size = 0;
  int64_t threads = 0;  // of each CPU rank; 0: they differ, or an older release wrote none
  double pass = 0;      // passes over the data finished, e.g. 1.5
  RunState run = {};
  Origin origin = {};  // the other job's checkpoint from which this job continued
  std::vector<ManifestFile> files = {};
  std::string digest = {};  // SHA-256 of the bytes as read, 32 bytes; not part of the file

  int64_t total_bytes() const;
  config::KeyValues recipe_keys() const;  // keys of the job, and recipe_facts
  bool operator==(const Manifest&) const = default;
};

// The origin of `job` when it continues from a checkpoint with this manifest.
Origin OriginOf(const Manifest& manifest, const std::string& job);

std::string ToJson(const Manifest& manifest);
// DataLoss names `path` and the fault.
absl::StatusOr<Manifest> ParseManifest(const std::string& json, const std::string& path);

// Reads directory/manifest.json. NotFound: no manifest.
absl::StatusOr<Manifest> ReadManifest(Files* files, const std::string& directory);
// Checks that every file exists with its size. For a file without block digests, checks its SHA-256
// too. The ranks check the blocks of the others when they read them. DataLoss names the file and
// both sizes or hashes.
absl::StatusOr<Manifest> CheckCheckpoint(Files* files, const std::string& directory);
// As CheckCheckpoint, and reads every block. DataLoss names the file, the block and both digests.
absl::StatusOr<Manifest> VerifyCheckpoint(Files* files, const std::string& directory);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_
