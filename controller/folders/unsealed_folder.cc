#include "controller/folders/unsealed_folder.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "common/status_macros.h"
#include "controller/folders/written_names.h"

namespace coxswain {
namespace {

using Kind = WrittenFolder::Kind;

constexpr int64_t kMostCardBytes = int64_t{1} << 20;

bool IsFileOf(Kind kind, const std::string& name) {
  switch (kind) {
    case Kind::kAdapter:
      return IsAdapterFile(name);
    case Kind::kModel:
      return IsModelFile(name);
    case Kind::kCheckpoint:
      break;
  }
  return IsCheckpointFile(name);
}

absl::StatusOr<bool> HasOurCard(Files* files, const WrittenFolder& folder) {
  const std::string path = absl::StrCat(folder.path, "/", kCardName);
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
  if (facts.kind != PathFacts::Kind::kFile || facts.bytes > kMostCardBytes) return false;
  ASSIGN_OR_RETURN(const std::string card, files->Read(path));
  return absl::StrContains(card, kCardSignature);
}

absl::StatusOr<bool> HasCheckpointBeside(Files* files, const std::string& output_dir) {
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(output_dir));
  for (const FileEntry& entry : entries) {
    if (CheckpointStep(entry.name) < 0 || !entry.directory || entry.link) continue;
    const std::string path = absl::StrCat(output_dir, "/", entry.name, "/", kManifestName);
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
    if (facts.kind != PathFacts::Kind::kFile) continue;
    const absl::StatusOr<std::string> text = files->Read(path);
    if (text.ok() && ParseManifestJson(*text, path).ok()) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<Finding> LookWithoutManifest(Files* files, const WrittenFolder& folder,
                                            const std::vector<FileEntry>& entries) {
  Finding foreign{.state = Finding::State::kForeign};
  for (const FileEntry& entry : entries) {
    const std::string path = absl::StrCat(folder.path, "/", entry.name);
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
    if (facts.kind == PathFacts::Kind::kFile && IsFileOf(folder.kind, entry.name)) continue;
    foreign.what = absl::StrCat(path, " was written by no job");
    return foreign;
  }
  ASSIGN_OR_RETURN(const bool shown, folder.kind == Kind::kAdapter
                                         ? HasOurCard(files, folder)
                                         : HasCheckpointBeside(files, folder.output_dir));
  if (shown) return Finding{.state = Finding::State::kAdopted};
  foreign.what =
      absl::StrCat(folder.path, " has no manifest of a job (", folder.ManifestPath(), ")");
  return foreign;
}

}  // namespace coxswain
