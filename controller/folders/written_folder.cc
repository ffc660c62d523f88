#include "controller/folders/written_folder.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "common/status_macros.h"
#include "controller/folders/replace_directory.h"
#include "controller/folders/unsealed_folder.h"
#include "controller/folders/written_names.h"

namespace coxswain {
namespace {

using State = Finding::State;

constexpr int64_t kAlwaysRead = int64_t{1} << 20;
constexpr int64_t kMostManifestBytes = int64_t{64} << 20;

struct Manifest {
  std::string job;
  std::vector<ManifestFile> files;
};

// NotFound: there is none. DataLoss: it is none of ours.
absl::StatusOr<Manifest> ReadManifestOf(Files* files, const WrittenFolder& folder) {
  const std::string path = folder.ManifestPath();
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
  if (facts.kind == PathFacts::Kind::kAbsent) return absl::NotFoundError(path);
  if (facts.kind != PathFacts::Kind::kFile || facts.bytes > kMostManifestBytes) {
    return absl::DataLossError(absl::StrCat(path, ": is no file of at most ",
                                            kMostManifestBytes >> 20, " MiB, as manifests are"));
  }
  ASSIGN_OR_RETURN(const std::string text, files->Read(path));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseManifestJson(text, path));
  const auto job = json.find("job");
  if (job == json.end() || !job->is_string() || job->get_ref<const std::string&>().empty()) {
    return absl::DataLossError(absl::StrCat(path, ": names no job"));
  }
  ASSIGN_OR_RETURN(std::vector<ManifestFile> listed, ManifestFilesOf(json, path));
  return Manifest{*job, std::move(listed)};
}

// What is wrong with a file that the manifest lists; empty: nothing.
absl::StatusOr<std::string> Difference(Files* files, const std::string& path,
                                       const ManifestFile& file, ReadingLimit* limit) {
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
  if (facts.kind == PathFacts::Kind::kAbsent) return std::string();
  if (facts.bytes != file.bytes) {
    return absl::StrCat(path, " has ", facts.bytes, " bytes, its job wrote ", file.bytes);
  }
  if (facts.bytes > kAlwaysRead) {
    if (facts.modified_ns == file.modified_ns || facts.bytes > limit->bytes) return std::string();
    limit->bytes -= facts.bytes;
  }
  if (!file.in_blocks()) {
    ASSIGN_OR_RETURN(const std::string sha256, files->Sha256Hex(path));
    if (sha256 == file.sha256) return std::string();
    return absl::StrCat(path, " was changed after its job wrote it");
  }
  const absl::Status same = files->CheckBlocks(path, file.blocks());
  if (absl::IsDataLoss(same)) return absl::StrCat(path, " was changed after its job wrote it");
  if (!same.ok()) return same;
  return std::string();
}

// Whether one of `names` is in the folder `name`, which ends with a slash.
bool HasFolder(const std::set<std::string>& names, const std::string& name) {
  const auto first = names.lower_bound(name);
  return first != names.end() && first->starts_with(name);
}

// An entry that `names` does not have, or that is no plain file; empty: there is none. `inside` is
// the name of the folder in `folder` that has the entries, with a slash behind; empty: itself.
absl::StatusOr<std::string> Stranger(Files* files, const WrittenFolder& folder,
                                     const std::string& inside,
                                     const std::vector<FileEntry>& entries,
                                     const std::set<std::string>& names) {
  for (const FileEntry& entry : entries) {
    const std::string name = inside + entry.name, path = absl::StrCat(folder.path, "/", name);
    if (entry.directory && !entry.link && HasFolder(names, name + "/")) {
      ASSIGN_OR_RETURN(const std::vector<FileEntry> within, files->List(path));
      ASSIGN_OR_RETURN(std::string stranger, Stranger(files, folder, name + "/", within, names));
      if (!stranger.empty()) return stranger;
      continue;
    }
    if (!names.contains(name)) return absl::StrCat(path, " is not a file of its job");
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
    const bool plain =
        facts.kind == PathFacts::Kind::kFile || facts.kind == PathFacts::Kind::kAbsent;
    if (!plain) return absl::StrCat(path, " is no plain file, as its job wrote it");
  }
  return std::string();
}

// A checkpoint's, whose manifest alone is damaged, is still a job's.
absl::StatusOr<Finding> WithDamagedManifest(const WrittenFolder& folder,
                                            const std::vector<FileEntry>& entries,
                                            const absl::Status& damage) {
  Finding finding{.state = State::kChanged, .what = std::string(damage.message())};
  for (const FileEntry& entry : entries) {
    const bool ours = entry.name == kManifestName || IsCheckpointFile(entry.name);
    if (folder.kind == WrittenFolder::Kind::kCheckpoint && ours && !entry.directory && !entry.link)
      continue;
    finding.state = State::kForeign;
  }
  return finding;
}

absl::StatusOr<Finding> Compare(Files* files, const WrittenFolder& folder,
                                const std::vector<FileEntry>& entries, const Manifest& manifest,
                                ReadingLimit* limit) {
  Finding finding{.state = State::kOurs, .job = manifest.job};
  std::set<std::string> names = {
      folder.kind == WrittenFolder::Kind::kCheckpoint ? kManifestName : kExportManifestName};
  for (const ManifestFile& file : manifest.files) names.insert(file.name);
  ASSIGN_OR_RETURN(finding.what, Stranger(files, folder, "", entries, names));
  if (!finding.what.empty()) {
    finding.state = State::kForeign;
    return finding;
  }
  for (const ManifestFile& file : manifest.files) {
    ASSIGN_OR_RETURN(finding.what,
                     Difference(files, absl::StrCat(folder.path, "/", file.name), file, limit));
    if (finding.what.empty()) continue;
    finding.state = State::kChanged;
    return finding;
  }
  return finding;
}

}  // namespace

absl::StatusOr<Finding> LookAtFolder(Files* files, const WrittenFolder& folder,
                                     ReadingLimit* limit) {
  ASSIGN_OR_RETURN(const PathFacts facts, files->Look(folder.path));
  if (facts.kind == PathFacts::Kind::kAbsent) return Finding{};
  if (facts.kind != PathFacts::Kind::kDirectory) {
    const char* is = facts.kind == PathFacts::Kind::kLink
                         ? " is a symbolic link, which no job makes"
                         : " is no directory";
    return Finding{.state = State::kForeign, .what = absl::StrCat(folder.path, is)};
  }
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(folder.path));
  if (entries.empty()) return Finding{};
  const absl::StatusOr<Manifest> manifest = ReadManifestOf(files, folder);
  if (manifest.ok()) return Compare(files, folder, entries, *manifest, limit);
  if (absl::IsNotFound(manifest.status())) return LookWithoutManifest(files, folder, entries);
  if (absl::IsDataLoss(manifest.status())) {
    return WithDamagedManifest(folder, entries, manifest.status());
  }
  return manifest.status();
}

absl::StatusOr<Finding> CheckMayGo(Files* files, const WrittenFolder& folder) {
  ReadingLimit none;
  ASSIGN_OR_RETURN(Finding finding, LookAtFolder(files, folder, &none));
  if (finding.may_go()) return finding;
  return absl::FailedPreconditionError(
      absl::StrCat(finding.what, ": ", folder.path,
                   " is neither replaced nor deleted, because a job replaces only files that a job "
                   "wrote and nobody changed. Move it away, and the job goes on"));
}

absl::StatusOr<Finding> ReplaceWritten(Files* files, const std::string& finished,
                                       const WrittenFolder& folder) {
  ASSIGN_OR_RETURN(Finding finding, CheckMayGo(files, folder));
  RETURN_IF_ERROR(ReplaceDirectory(files, finished, folder.path, [&](const std::string& aside) {
    return CheckMayGo(files, folder.At(aside)).status();
  }));
  return finding;
}

absl::Status RemoveWritten(Files* files, const WrittenFolder& folder, const std::string& aside) {
  ASSIGN_OR_RETURN(const Finding finding, CheckMayGo(files, folder));
  if (!files->Exists(folder.path)) return absl::OkStatus();
  RETURN_IF_ERROR(files->RenameDirectory(folder.path, aside));
  const absl::Status still = CheckMayGo(files, folder.At(aside)).status();
  if (still.ok()) return files->RemoveAll(aside);
  files->RenameDirectory(aside, folder.path).IgnoreError();  // `still` says more
  return still;
}

}  // namespace coxswain
