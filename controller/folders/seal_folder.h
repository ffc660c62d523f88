// The manifest of an export: the job that wrote it, and its files as they were when it was
// finished.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_SEAL_FOLDER_H_
#define COXSWAIN_CONTROLLER_FOLDERS_SEAL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest_files.h"
#include "controller/folders/verification.h"
#include "controller/runtime/files.h"

namespace coxswain {

// The checkpoint of another job from which a job continued; no job: it began from nothing.
struct Origin {
  std::string job = {};
  int64_t step = 0;
  int64_t total_steps = 0;  // of its recipe, where this job's has another number; else 0
  bool operator==(const Origin&) const = default;
};

// The key "continues" of a manifest. AddOrigin adds it if there is a job; OriginIn reads it and may
// throw nlohmann::json::exception.
void AddOrigin(const Origin& origin, nlohmann::json* manifest);
Origin OriginIn(const nlohmann::json& manifest);

struct Author {
  std::string job;
  int64_t step = 0;  // finished ones of what was exported
  Origin origin = {};
};

// The manifest of an export, as ReadSeal reads it.
struct Seal {
  Author author;
  std::vector<ManifestFile> files;
  std::string digest;  // SHA-256 of the manifest, 32 bytes
};

// Reads every file of `directory`, writes coxswain_manifest.json over them there, durably, and
// returns its SHA-256 (32 bytes). The manifest has its verification too, and that of its GGUF
// files.
absl::StatusOr<std::string> SealFolder(Files* files, const std::string& directory,
                                       const Author& author, const Verification& verification = {},
                                       const Verification& gguf = {});
// NotFound: there is none. DataLoss: it cannot be read as one.
absl::StatusOr<Seal> ReadSeal(Files* files, const std::string& directory);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_SEAL_FOLDER_H_
