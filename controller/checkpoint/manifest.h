// manifest.json of a checkpoint directory: what makes it a checkpoint. Valid <=> it verifies.
#ifndef COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_
#define COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/config/recipe_keys.h"
#include "common/manifest_files.h"
#include "controller/checkpoint/run_state.h"
#include "controller/files.h"
#include "controller/seal_folder.h"

namespace coxswain::checkpoint {

struct Manifest {
  std::string job = {};
  uint64_t term = 0;
  uint64_t epoch = 0;
  std::string recipe_hash = {};  // lower-case hex; the directory belongs to jobs of this recipe
  // Lower-case hex: of the recipe without its length. Empty, and total_steps 0, of a release that
  // kept none.
  std::string recipe_stem = {};
  int64_t total_steps = 0;  // of the recipe
  // The job that wrote it, resolved, as JSON; empty of a release that kept none.
  std::string effective_json = {};
  config::KeyValues recipe_facts = {};  // what of the recipe its files and workers gave
  std::string plan_hash = {};           // lower-case hex
  std::string fingerprint =
      {};  // of the ranks; another one may resume but is not compared bit by bit
  int32_t world_size = 0;
  int64_t threads = 0;  // of each rank on CPUs; 0: they differ, or a release that kept none
  double pass = 0;      // passes over the data finished, e.g. 1.5
  RunState run = {};
  Origin origin = {};  // what the job went on from, of another job
  std::vector<ManifestFile> files = {};
  std::string digest = {};  // SHA-256 of the manifest as it was read, 32 bytes; is not in it

  int64_t total_bytes() const;
  config::KeyValues recipe_keys() const;  // of the job, with recipe_facts
  bool operator==(const Manifest&) const = default;
};

// Where a job that goes on from a checkpoint with this manifest comes from.
Origin OriginOf(const Manifest& manifest, const std::string& job);

std::string ToJson(const Manifest& manifest);
// DataLoss names `path` and what is wrong.
absl::StatusOr<Manifest> ParseManifest(const std::string& json, const std::string& path);

// Reads directory/manifest.json. NotFound: no manifest.
absl::StatusOr<Manifest> ReadManifest(Files* files, const std::string& directory);
// That every file is there with its size, and of one without digests of blocks its SHA-256: what
// the controller looks at before ranks read the blocks, which check them. DataLoss names the file
// and both sizes or hashes.
absl::StatusOr<Manifest> CheckCheckpoint(Files* files, const std::string& directory);
// Likewise, and reads every block: DataLoss names the file, the block and both digests.
absl::StatusOr<Manifest> VerifyCheckpoint(Files* files, const std::string& directory);

}  // namespace coxswain::checkpoint

#endif  // COXSWAIN_CONTROLLER_CHECKPOINT_MANIFEST_H_
