#include "common/hub/download.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/read_file.h"
#include "common/hub/api/api_answer.h"
#include "common/hub/api/hub_failure.h"
#include "common/hub/cache/free_space.h"
#include "common/hub/cache/kept_listing.h"
#include "common/hub/cache/repository_cache.h"
#include "common/hub/download_options.h"
#include "common/hub/download_run.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

constexpr size_t kFilesNamed = 3;

absl::Status OfflineStatus() {
  return absl::UnavailableError("HF_HUB_OFFLINE is set: the Hub is not asked");
}

std::string NamesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(paths.size(), kFilesNamed); ++i) {
    names.push_back(OneLine(paths[i], kMostNameBytes));
  }
  const size_t others = paths.size() - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "),
                      others > 0 ? absl::StrCat(" and ", others, " more") : "");
}

absl::Status NotInCache(const Settings& settings, const Repository& repository,
                        const std::string& what) {
  return absl::NotFoundError(
      absl::StrCat("the cache ", settings.cache, " has ", what, " of ", NameOf(repository), " at ",
                   repository.revision, ": `cox pull ", repository.id,
                   repository.type == RepositoryType::kDataset ? " --dataset" : "",
                   "` fetches it where the Hub can be reached"));
}

std::vector<HubFile> Missing(const RepositoryCache& cache, const std::string& commit,
                             const std::vector<HubFile>& files) {
  std::vector<HubFile> missing;
  for (const HubFile& file : files) {
    if (!cache.HasFile(commit, file)) missing.push_back(file);
  }
  return missing;
}

// Shards that an index in the snapshot names and that are not there.
std::vector<std::string> MissingShards(const RepositoryCache& cache, const std::string& commit,
                                       const std::vector<std::string>& files) {
  std::set<std::string> missing;
  for (const char* name : {"model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    const absl::StatusOr<std::string> text = ReadFile(cache.File(commit, name));
    if (!text.ok()) continue;
    const auto index = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
    if (!index.is_object() || !index.contains("weight_map")) continue;
    for (const auto& [tensor, shard] : index["weight_map"].items()) {
      if (shard.is_string()) missing.insert(shard.get<std::string>());
    }
    break;  // a repository that has both has the same weights twice
  }
  for (const std::string& file : files) missing.erase(file);
  return {missing.begin(), missing.end()};
}

// What was fetched by a client that kept no listing: what is there, unless it is visibly a part.
absl::StatusOr<std::vector<HubFile>> FilesThere(const Settings& settings,
                                                const Repository& repository,
                                                const RepositoryCache& cache,
                                                const std::string& commit,
                                                const std::vector<std::string>& include) {
  const std::vector<std::string> paths = cache.Files(commit);
  if (paths.empty()) return NotInCache(settings, repository, "no file");
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back({.path = path});
  ASSIGN_OR_RETURN(files, SelectFiles(repository, include, files));
  if (!include.empty() || repository.type == RepositoryType::kDataset) return files;
  const std::vector<std::string> shards = MissingShards(cache, commit, paths);
  if (shards.empty()) return files;
  return NotInCache(settings, repository, "not " + NamesOf(shards));
}

absl::Status CheckRoom(const Repository& repository, const RepositoryCache& cache,
                       const std::vector<HubFile>& missing) {
  int64_t needed = 0;
  std::set<std::string> counted;
  for (const HubFile& file : missing) {
    if (!counted.insert(file.etag).second || cache.HasBlob(file)) continue;
    needed += file.bytes - AllocatedBytes(cache.Partial(file.etag));
  }
  const std::optional<int64_t> free = FreeBytes(cache.Blobs());
  if (!free || needed <= *free) return absl::OkStatus();
  return DiskFull(cache.Blobs(), needed, NameOf(repository));
}

BlobSource SourceOf(const Settings& settings, const Repository& repository,
                    const RepositoryCache& cache, const std::string& commit, const HubFile& file) {
  return {
      .name = absl::StrCat(OneLine(file.path, kMostNameBytes), " of ", NameOf(repository)),
      .version = commit,
      .url = FileUrl(settings.endpoint, repository, commit, file.path),
      .bytes = file.bytes,
      .digest = file.etag,
      .lock = cache.Lock(file.etag),
      .partial = cache.Partial(file.etag),
      .content = cache.Blob(file.etag),
      .failure = [&settings, &repository, path = file.path](
                     const HttpEnd& end) { return FailureOf(end, settings, repository, path); },
      .finish = [&cache, commit, file](const std::string&) { return cache.Link(commit, file); }};
}

std::vector<BlobSource> SourcesOf(const Settings& settings, const Repository& repository,
                                  const RepositoryCache& cache, const std::string& commit,
                                  const std::vector<HubFile>& files) {
  std::vector<BlobSource> sources;
  for (const HubFile& file : files) {
    sources.push_back(SourceOf(settings, repository, cache, commit, file));
  }
  return sources;
}

Progress ThereOf(const std::vector<HubFile>& wanted, const std::vector<HubFile>& missing) {
  Progress there;
  there.files = static_cast<int64_t>(wanted.size()) - static_cast<int64_t>(missing.size());
  for (const HubFile& file : wanted) there.bytes += file.bytes;
  for (const HubFile& file : missing) there.bytes -= file.bytes;
  return there;
}

}  // namespace

absl::StatusOr<ResolvedCommit> ResolveCommit(const Settings& settings, const Repository& repository,
                                             const std::function<bool()>& cancelled) {
  const RepositoryCache cache(settings.cache, repository);
  std::optional<std::string> cached = cache.CommitOf(repository.revision);
  if (cached && cache.Files(*cached).empty()) cached.reset();
  if (cached && IsCommit(repository.revision)) return ResolvedCommit{*cached, absl::OkStatus()};
  if (settings.offline) {
    if (cached) return ResolvedCommit{*cached, OfflineStatus()};
    return absl::NotFoundError(
        absl::StrCat(NameOf(repository), " at ", repository.revision, " is not in the cache ",
                     settings.cache, ", and HF_HUB_OFFLINE is set; unset it, or run `cox pull ",
                     repository.id, repository.type == RepositoryType::kDataset ? " --dataset" : "",
                     "` where the Hub can be reached"));
  }
  Settings once = settings;
  if (cached) once.limits.attempts = 1;  // there is something else to use
  const absl::StatusOr<std::string> commit = AskCommit(once, repository, cancelled);
  if (commit.ok()) return ResolvedCommit{*commit, absl::OkStatus()};
  if (cached && absl::IsUnavailable(commit.status())) {
    return ResolvedCommit{*cached, commit.status()};
  }
  return commit.status();
}

std::string SnapshotFolder(const Settings& settings, const Repository& repository,
                           const std::string& commit) {
  return RepositoryCache(settings.cache, repository).Snapshot(commit);
}

absl::StatusOr<std::vector<HubFile>> ListFiles(const Settings& settings,
                                               const Repository& repository,
                                               const std::string& commit,
                                               const std::function<bool()>& cancelled) {
  const RepositoryCache cache(settings.cache, repository);
  if (std::optional<std::vector<HubFile>> kept = ReadKeptListing(cache, commit)) return *kept;
  absl::Status unasked = OfflineStatus();
  if (!settings.offline) {
    const auto asked = AskFiles(settings, repository, commit, cancelled);
    if (asked.ok()) RETURN_IF_ERROR(KeepListing(cache, commit, *asked));
    if (!absl::IsUnavailable(asked.status())) return asked;
    unasked = asked.status();
  }
  std::vector<HubFile> files;
  for (const std::string& path : cache.Files(commit)) files.push_back({.path = path});
  if (!files.empty()) return files;
  if (!settings.offline) return unasked;
  return NotInCache(settings, repository, "no file");
}

absl::Status NoteRevision(const Settings& settings, const Repository& repository,
                          const std::string& commit) {
  return RepositoryCache(settings.cache, repository).NoteCommit(repository.revision, commit);
}

absl::Status CheckAccess(const Settings& settings, const Repository& repository,
                         const std::string& commit, const std::string& path,
                         const std::function<bool()>& cancelled) {
  return AskApi(settings, repository, FileUrl(settings.endpoint, repository, commit, path),
                cancelled)
      .status();
}

absl::StatusOr<Snapshot> FindSnapshot(const Settings& settings, const Repository& repository,
                                      const std::string& commit,
                                      const std::vector<std::string>& include) {
  const RepositoryCache cache(settings.cache, repository);
  Snapshot snapshot{.path = cache.Snapshot(commit), .commit = commit};
  const std::optional<std::vector<HubFile>> listing = ReadKeptListing(cache, commit);
  if (!listing) {
    ASSIGN_OR_RETURN(snapshot.files, FilesThere(settings, repository, cache, commit, include));
    return snapshot;
  }
  ASSIGN_OR_RETURN(snapshot.files, SelectFiles(repository, include, *listing));
  std::vector<std::string> paths;
  for (const HubFile& file : Missing(cache, commit, snapshot.files)) paths.push_back(file.path);
  if (paths.empty()) return snapshot;
  return NotInCache(settings, repository, "not " + NamesOf(paths));
}

absl::StatusOr<Snapshot> Download(const Settings& settings, const Repository& repository,
                                  const std::string& commit, const DownloadOptions& options) {
  if (settings.offline) return FindSnapshot(settings, repository, commit, options.include);
  const RepositoryCache cache(settings.cache, repository);
  std::optional<std::vector<HubFile>> listing = ReadKeptListing(cache, commit);
  const bool kept = listing.has_value();
  if (!kept) {
    const auto asked = AskFiles(settings, repository, commit, options.cancelled);
    if (absl::IsUnavailable(asked.status())) {
      const auto found = FindSnapshot(settings, repository, commit, options.include);
      return found.ok() ? found : asked.status();
    }
    RETURN_IF_ERROR(asked.status());
    listing = *asked;
  }
  Snapshot snapshot{.path = cache.Snapshot(commit), .commit = commit};
  ASSIGN_OR_RETURN(snapshot.files, SelectFiles(repository, options.include, *listing));
  const std::vector<HubFile> missing = Missing(cache, commit, snapshot.files);
  const DownloadPlace place{
      .settings = settings, .name = NameOf(repository), .folder = cache.Blobs()};
  if (!missing.empty()) {
    RETURN_IF_ERROR(CheckRoom(repository, cache, missing));
    if (!kept) RETURN_IF_ERROR(KeepListing(cache, commit, *listing));
    RETURN_IF_ERROR(cache.MakeFolders());
  }
  DownloadRun run(place, options, ThereOf(snapshot.files, missing),
                  SourcesOf(settings, repository, cache, commit, missing));
  RETURN_IF_ERROR(run.Run());
  snapshot.fetched_bytes = run.fetched_bytes();
  const absl::Status noted = cache.NoteCommit(repository.revision, commit);
  // A cache that is complete may be read only.
  if (!noted.ok() && !missing.empty()) return noted;
  return snapshot;
}

}  // namespace coxswain::hub
