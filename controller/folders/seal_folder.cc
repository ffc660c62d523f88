#include "controller/folders/seal_folder.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

std::string ManifestIn(const std::string& directory) {
  return absl::StrCat(directory, "/", kExportManifestName);
}

// The files of `directory`, with `prefix` before their names, and those of its folders.
absl::Status ListSealed(Files* files, const std::string& directory, const std::string& prefix,
                        std::vector<ManifestFile>* listed) {
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(directory));
  for (const FileEntry& entry : entries) {
    const std::string path = absl::StrCat(directory, "/", entry.name);
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
    if (facts.kind == PathFacts::Kind::kDirectory) {
      RETURN_IF_ERROR(ListSealed(files, path, absl::StrCat(prefix, entry.name, "/"), listed));
      continue;
    }
    ASSIGN_OR_RETURN(const BlockDigests digests, files->Digests(path));
    listed->push_back(FileInBlocks(absl::StrCat(prefix, entry.name), digests));
    listed->back().modified_ns = facts.modified_ns;
  }
  return absl::OkStatus();
}

}  // namespace

void AddOrigin(const Origin& origin, nlohmann::json* manifest) {
  if (origin.job.empty()) return;
  nlohmann::json& continues = (*manifest)["continues"];
  continues = {{"job", origin.job}, {"step", origin.step}};
  if (origin.total_steps > 0) continues["total_steps"] = origin.total_steps;
}

Origin OriginIn(const nlohmann::json& manifest) {
  if (!manifest.contains("continues")) return {};
  const nlohmann::json& continues = manifest.at("continues");
  return {.job = continues.at("job"),
          .step = continues.at("step"),
          .total_steps = continues.value("total_steps", int64_t{0})};
}

absl::StatusOr<std::string> SealFolder(Files* files, const std::string& directory,
                                       const Author& author, const Verification& verification,
                                       const Verification& gguf) {
  std::vector<ManifestFile> listed;
  RETURN_IF_ERROR(ListSealed(files, directory, "", &listed));
  nlohmann::json json = {{"format", kExportManifestFormat},
                         {"job", author.job},
                         {"step", author.step},
                         {"files", ManifestFilesJson(listed)}};
  AddOrigin(author.origin, &json);
  AddVerification(verification, gguf, &json);
  const std::string text = json.dump(2) + "\n";
  RETURN_IF_ERROR(files->WriteDurably(ManifestIn(directory), text));
  return Sha256(text);
}

absl::StatusOr<Seal> ReadSeal(Files* files, const std::string& directory) {
  const std::string path = ManifestIn(directory);
  ASSIGN_OR_RETURN(const std::string text, files->Read(path));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseManifestJson(text, path));
  Seal seal;
  seal.digest = Sha256(text);
  try {
    seal.author.job = json.at("job");
    seal.author.step = json.at("step");
    seal.author.origin = OriginIn(json);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, ": ", error.what()));
  }
  ASSIGN_OR_RETURN(seal.files, ManifestFilesOf(json, path));
  return seal;
}

}  // namespace coxswain
