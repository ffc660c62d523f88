#include "common/hub/cache/kept_listing.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>

#include "common/files/read_file.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

template <typename T>
T ValueOf(const Json& object, const char* key, const T& otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, int64_t>) {
    return found->is_number_unsigned() ? found->get<int64_t>() : otherwise;
  } else {
    return found->is_string() ? found->get<std::string>() : otherwise;
  }
}

HubFile FileOf(const std::string& path, const Json& entry) {
  const int64_t bytes = ValueOf<int64_t>(entry, "size", -1);
  const std::string blob = ValueOf<std::string>(entry, "blob_id", "");
  return {.path = path,
          .bytes = ValueOf<int64_t>(entry, "lfs_size", bytes),
          .etag = ValueOf<std::string>(entry, "lfs_sha256", blob)};
}

std::optional<std::vector<HubFile>> ReadListing(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return std::nullopt;
  const Json listing = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!listing.is_object() || ValueOf<int64_t>(listing, "format_version", 0) != kFormat ||
      !listing.contains("files") || !listing["files"].is_object()) {
    return std::nullopt;
  }
  std::vector<HubFile> files;
  for (const auto& [name, entry] : listing["files"].items()) {
    if (!entry.is_object()) return std::nullopt;
    files.push_back(FileOf(name, entry));
    const HubFile& file = files.back();
    if (!CheckPath(file.path).ok() || file.bytes < 0 || !IsEtag(file.etag)) return std::nullopt;
  }
  return files;
}

// Below `folder`, relative to it. A link to nothing is no file.
std::vector<std::string> FilesBelow(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    std::error_code unreadable;
    if (!entries->is_regular_file(unreadable)) continue;
    paths.push_back(entries->path().lexically_relative(folder).string());
  }
  return paths;
}

}  // namespace

std::vector<std::string> PathsOfSnapshot(const std::string& folder) {
  const std::filesystem::path snapshot = folder;
  const std::filesystem::path repository = snapshot.parent_path().parent_path();
  const std::string name = snapshot.filename().string() + ".json";
  std::optional<std::vector<HubFile>> files = ReadListing(repository / "coxswain" / name);
  if (!files) files = ReadListing(repository / "trees" / name);
  std::vector<std::string> paths;
  if (!files) {
    paths = FilesBelow(folder);
  } else {
    for (const HubFile& file : *files) paths.push_back(file.path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::optional<std::vector<HubFile>> ReadKeptListing(const RepositoryCache& cache,
                                                    const std::string& commit) {
  std::optional<std::vector<HubFile>> files = ReadListing(cache.Listing(commit));
  return files ? files : ReadListing(cache.Tree(commit));
}

absl::Status KeepListing(const RepositoryCache& cache, const std::string& commit,
                         const std::vector<HubFile>& files) {
  Json kept = Json::object();
  for (const HubFile& file : files) {
    const bool lfs = file.etag.size() == 64;
    kept[file.path] = {{"size", file.bytes}};
    kept[file.path][lfs ? "lfs_sha256" : "blob_id"] = file.etag;
    if (lfs) kept[file.path]["lfs_size"] = file.bytes;
  }
  return WriteCacheText(cache.Listing(commit),
                        Json{{"format_version", kFormat}, {"files", kept}}.dump());
}

}  // namespace coxswain::hub
