// What the manifest of a checkpoint, or of an export, says of the files beside it: the controller
// writes it, and every rank that loads a checkpoint checks its files by it.
#ifndef COXSWAIN_COMMON_CHECKPOINT_MANIFEST_FILES_H_
#define COXSWAIN_COMMON_CHECKPOINT_MANIFEST_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "common/files/block_digests.h"

namespace coxswain {

inline constexpr char kManifestName[] = "manifest.json";  // of a checkpoint
// Of an export, which lies among files of transformers and peft: neither reads this name.
inline constexpr char kExportManifestName[] = "coxswain_manifest.json";
// Value of "format" of what is written; ParseManifestJson accepts these and
// "coxswain-checkpoint/1", whose files have no blocks.
inline constexpr char kManifestFormat[] = "coxswain-checkpoint/2";
inline constexpr char kExportManifestFormat[] = "coxswain-export/1";

struct ManifestFile {
  std::string name;  // inside the directory
  int64_t bytes = 0;
  std::string sha256 = {};   // lower-case hex of the whole file; empty where it has blocks
  std::string digests = {};  // of its blocks, BlockDigests::digests; empty: it has none
  int64_t modified_ns = 0;   // time stamp of the file when it was recorded; 0: it was not

  bool in_blocks() const { return !digests.empty(); }
  BlockDigests blocks() const { return {.bytes = bytes, .digests = digests}; }
  bool operator==(const ManifestFile&) const = default;
};

ManifestFile FileInBlocks(std::string name, const BlockDigests& blocks);
ManifestFile FileAsWhole(std::string name, const std::string& content);

// "files" of a manifest: [{name, bytes, sha256}] or [{name, bytes, root, blocks}], where `blocks`
// is the digests in hex and `root` their BlockDigests::Root; modified_ns where it is known.
nlohmann::json ManifestFilesJson(const std::vector<ManifestFile>& files);

// Parses the text of a manifest as JSON, of which the caller reads the rest. DataLoss names `path`
// and what is wrong, as in all of these.
absl::StatusOr<nlohmann::json> ParseManifestJson(const std::string& text, const std::string& path);
// DataLoss too for a name that leaves the directory, and for digests that are not those of `root`
// or not as many as the file has blocks.
absl::StatusOr<std::vector<ManifestFile>> ManifestFilesOf(const nlohmann::json& manifest,
                                                          const std::string& path);
// NotFound: no manifest in `directory`.
absl::StatusOr<std::vector<ManifestFile>> ReadManifestFiles(const std::string& directory);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_CHECKPOINT_MANIFEST_FILES_H_
