// The manifest of an export: who wrote it, and what it was when it was finished.
#ifndef COXSWAIN_CONTROLLER_SEAL_FOLDER_H_
#define COXSWAIN_CONTROLLER_SEAL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/manifest_files.h"
#include "controller/files.h"

namespace coxswain {

// What a job went on from, of another job; no job: from nothing.
struct Origin {
  std::string job = {};
  int64_t step = 0;
  bool operator==(const Origin&) const = default;
};

struct Author {
  std::string job;
  int64_t step = 0;  // finished ones of what was exported
  Origin origin = {};
};

// A manifest of an export as it is read.
struct Seal {
  Author author;
  std::vector<ManifestFile> files;
  std::string digest;  // SHA-256 of the manifest, 32 bytes
};

// Reads every file of `directory`, writes coxswain_manifest.json over them there, durably, and
// returns its SHA-256 (32 bytes).
absl::StatusOr<std::string> SealFolder(Files* files, const std::string& directory,
                                       const Author& author);
// NotFound: there is none. DataLoss: it cannot be read as one.
absl::StatusOr<Seal> ReadSeal(Files* files, const std::string& directory);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_SEAL_FOLDER_H_
