#include "controller/checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "controller/checkpoint/run_json.h"

namespace coxswain::checkpoint {
namespace {

using nlohmann::json;

Manifest FromJson(const json& in) {
  Manifest manifest;
  manifest.job = in.at("job");
  manifest.term = in.at("term");
  manifest.epoch = in.at("epoch");
  manifest.recipe_hash = in.at("recipe_hash");
  manifest.recipe_stem = in.value("recipe_stem", std::string());
  manifest.total_steps = in.value("total_steps", int64_t{0});
  if (in.contains("effective_job")) manifest.effective_json = in.at("effective_job").dump();
  manifest.recipe_facts = in.value("recipe_facts", config::KeyValues());
  manifest.plan_hash = in.at("plan_hash");
  manifest.fingerprint = in.at("fingerprint");
  manifest.world_size = in.at("world_size");
  manifest.threads = in.value("threads", int64_t{0});
  manifest.pass = in.at("pass");
  manifest.run = RunFromJson(in.at("run"));
  manifest.origin = OriginIn(in);
  return manifest;
}

absl::Status CheckFile(Files* files, const std::string& path, const ManifestFile& file) {
  const absl::StatusOr<int64_t> bytes = files->Size(path);
  if (!bytes.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", std::string(bytes.status().message())));
  }
  if (*bytes != file.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", *bytes, " bytes, its manifest says ", file.bytes));
  }
  if (file.in_blocks()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string sha256, files->Sha256Hex(path));
  if (sha256 == file.sha256) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": has SHA-256 ", sha256, ", its manifest says ", file.sha256));
}

}  // namespace

int64_t Manifest::total_bytes() const {
  int64_t bytes = 0;
  for (const ManifestFile& file : files) bytes += file.bytes;
  return bytes;
}

config::KeyValues Manifest::recipe_keys() const {
  config::KeyValues keys = recipe_facts;
  keys.merge(config::RecipeKeys(effective_json));
  return keys;
}

Origin OriginOf(const Manifest& manifest, const std::string& job) {
  if (manifest.job == job) return manifest.origin;
  return {.job = manifest.job, .step = manifest.run.step};
}

std::string ToJson(const Manifest& manifest) {
  json out = {{"format", kManifestFormat},
              {"job", manifest.job},
              {"term", manifest.term},
              {"epoch", manifest.epoch},
              {"recipe_hash", manifest.recipe_hash},
              {"plan_hash", manifest.plan_hash},
              {"fingerprint", manifest.fingerprint},
              {"world_size", manifest.world_size},
              {"pass", manifest.pass},
              {"run", RunJson(manifest.run)},
              {"files", ManifestFilesJson(manifest.files)}};
  if (!manifest.recipe_stem.empty()) {
    out["recipe_stem"] = manifest.recipe_stem;
    out["total_steps"] = manifest.total_steps;
  }
  if (!manifest.effective_json.empty()) out["effective_job"] = json::parse(manifest.effective_json);
  if (!manifest.recipe_facts.empty()) out["recipe_facts"] = manifest.recipe_facts;
  if (manifest.threads > 0) out["threads"] = manifest.threads;
  AddOrigin(manifest.origin, &out);
  return out.dump(2) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const json in, ParseManifestJson(text, path));
  Manifest manifest;
  try {
    manifest = FromJson(in);
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, ": ", error.what()));
  }
  ASSIGN_OR_RETURN(manifest.files, ManifestFilesOf(in, path));
  manifest.digest = Sha256(text);
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(Files* files, const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, files->Read(path));
  return ParseManifest(text, path);
}

absl::StatusOr<Manifest> CheckCheckpoint(Files* files, const std::string& directory) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(files, directory));
  for (const ManifestFile& file : manifest.files) {
    RETURN_IF_ERROR(CheckFile(files, absl::StrCat(directory, "/", file.name), file));
  }
  return manifest;
}

absl::StatusOr<Manifest> VerifyCheckpoint(Files* files, const std::string& directory) {
  ASSIGN_OR_RETURN(Manifest manifest, CheckCheckpoint(files, directory));
  for (const ManifestFile& file : manifest.files) {
    if (!file.in_blocks()) continue;
    RETURN_IF_ERROR(files->CheckBlocks(absl::StrCat(directory, "/", file.name), file.blocks()));
  }
  return manifest;
}

}  // namespace coxswain::checkpoint
