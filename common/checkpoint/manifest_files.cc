#include "common/checkpoint/manifest_files.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

using nlohmann::json;

constexpr char kFormatWithoutBlocks[] = "coxswain-checkpoint/1";

bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

// A name, or one in a folder.
bool StaysInside(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return IsPlainName(name);
  return IsPlainName(name.substr(0, slash)) && IsPlainName(name.substr(slash + 1));
}

absl::StatusOr<ManifestFile> FileOf(const json& in, const std::string& path) {
  ManifestFile file{.name = in.at("name"), .bytes = in.at("bytes")};
  if (!StaysInside(file.name)) {
    return absl::DataLossError(
        absl::StrCat(path, ": file name ", file.name, " leaves the directory"));
  }
  constexpr int64_t kMostBytes = int64_t{1} << 60;
  if (file.bytes < 0 || file.bytes > kMostBytes) {
    return absl::DataLossError(absl::StrCat(path, ": file ", file.name, " has ", file.bytes,
                                            " bytes, which no checkpoint has"));
  }
  file.modified_ns = in.value("modified_ns", int64_t{0});
  if (!in.contains("blocks")) {
    file.sha256 = in.at("sha256").get<std::string>();
    return file;
  }
  file.digests = absl::HexStringToBytes(in.at("blocks").get<std::string>());
  const BlockDigests blocks = file.blocks();
  const std::string root = in.at("root").get<std::string>();
  if (file.in_blocks() && blocks.complete() && blocks.Root() == root) return file;
  return absl::DataLossError(absl::StrCat(path, ": ", file.digests.size() / kBlockDigestBytes,
                                          " digests of ", file.name, " have root ", blocks.Root(),
                                          ", it says ", blocks.blocks(), " blocks with root ", root,
                                          ": the manifest was damaged after it was written"));
}

}  // namespace

ManifestFile FileInBlocks(std::string name, const BlockDigests& blocks) {
  return {.name = std::move(name), .bytes = blocks.bytes, .digests = blocks.digests};
}

ManifestFile FileAsWhole(std::string name, const std::string& content) {
  return {.name = std::move(name),
          .bytes = static_cast<int64_t>(content.size()),
          .sha256 = ToHex(Sha256(content))};
}

json ManifestFilesJson(const std::vector<ManifestFile>& files) {
  json out = json::array();
  for (const ManifestFile& file : files) {
    json& entry = out.emplace_back(json{{"name", file.name}, {"bytes", file.bytes}});
    if (file.modified_ns != 0) entry["modified_ns"] = file.modified_ns;
    if (file.in_blocks()) {
      entry["root"] = file.blocks().Root();
      entry["blocks"] = ToHex(file.digests);
    } else {
      entry["sha256"] = file.sha256;
    }
  }
  return out;
}

absl::StatusOr<json> ParseManifestJson(const std::string& text, const std::string& path) {
  json manifest = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json format = manifest.is_object() ? manifest.value("format", json()) : json();
  if (format != kManifestFormat && format != kFormatWithoutBlocks &&
      format != kExportManifestFormat) {
    return absl::DataLossError(absl::StrCat(path, ": is neither a ", kManifestFormat, " nor a ",
                                            kExportManifestFormat, " manifest"));
  }
  return manifest;
}

absl::StatusOr<std::vector<ManifestFile>> ManifestFilesOf(const json& manifest,
                                                          const std::string& path) {
  std::vector<ManifestFile> files;
  int64_t total_bytes = 0;
  try {
    for (const json& entry : manifest.at("files")) {
      ASSIGN_OR_RETURN(ManifestFile file, FileOf(entry, path));
      if (__builtin_add_overflow(total_bytes, file.bytes, &total_bytes)) {
        return absl::DataLossError(absl::StrCat(path, ": its files together have more bytes than ",
                                                "can be counted: no checkpoint has"));
      }
      files.push_back(std::move(file));
    }
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, ": ", error.what()));
  }
  return files;
}

absl::StatusOr<std::vector<ManifestFile>> ReadManifestFiles(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const json manifest, ParseManifestJson(text, path));
  return ManifestFilesOf(manifest, path);
}

}  // namespace coxswain
