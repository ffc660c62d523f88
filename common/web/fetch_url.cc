#include "common/web/fetch_url.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/hub/cache/free_space.h"
#include "common/hub/download_run.h"
#include "common/posix_status.h"
#include "common/status_macros.h"
#include "common/web/ask_url.h"
#include "common/web/model_folder.h"
#include "common/web/url_cache.h"
#include "common/web/url_failure.h"

namespace coxswain::web {
namespace {

absl::StatusOr<UrlListing> Ask(const hub::Settings& settings, const UrlSource& source,
                               const std::function<bool()>& cancelled) {
  if (source.kind == UrlKind::kModel) return AskModel(settings, source, cancelled);
  ASSIGN_OR_RETURN(const std::vector<UrlFacts> facts, AskFacts(settings, {source.url}, cancelled));
  RETURN_IF_ERROR(facts.front().there);
  return UrlListing{{.name = FileNameOf(source.url),
                     .identity = facts.front().identity,
                     .bytes = facts.front().bytes}};
}

absl::Status NotInCache(const hub::Settings& settings, const UrlSource& source,
                        const std::string& what) {
  return absl::NotFoundError(absl::StrCat("the cache ", settings.cache, " has ", what, " of ",
                                          NameOf(source), ": submit the job again where its ",
                                          "server can be reached"));
}

UrlCopy CopyOf(const UrlCache& cache, const UrlSource& source, const std::string& revision,
               UrlListing listing) {
  return {.path = source.kind == UrlKind::kModel ? cache.Folder(revision)
                                                 : cache.File(revision, listing.front()),
          .files = std::move(listing)};
}

UrlListing MissingOf(const UrlCache& cache, const std::string& revision,
                     const UrlListing& listing) {
  UrlListing missing;
  for (const UrlFile& file : listing) {
    if (!cache.Has(revision, file)) missing.push_back(file);
  }
  return missing;
}

// The files of a revision that the cache does not list: those of now, if they are still the same.
absl::StatusOr<UrlListing> AskAgain(const hub::Settings& settings, const UrlSource& source,
                                    const UrlCache& cache, const std::string& revision,
                                    const std::function<bool()>& cancelled) {
  if (settings.offline) return NotInCache(settings, source, "nothing");
  ASSIGN_OR_RETURN(UrlListing listing, Ask(settings, source, cancelled));
  const std::string now = RevisionOf(listing);
  if (now != revision) {
    return Changed(NameOf(source),
                   absl::StrCat("it was at revision ", revision, " and is at ", now));
  }
  RETURN_IF_ERROR(cache.Keep(listing));
  return listing;
}

hub::BlobSource SourceOf(const UrlCache& cache, const UrlSource& source,
                         const std::string& revision, const UrlFile& file) {
  const std::string url = UrlOf(source, file);
  return {.name = hub::PublicUrl(url),
          .version = "revision " + revision,
          .url = url,
          .bytes = file.bytes,
          .digest = {},
          .lock = cache.Beside(revision, file, "lock"),
          .partial = cache.Beside(revision, file, "incomplete"),
          .content = cache.File(revision, file),
          .check_head =
              [url, file](const hub::HttpHead& head) { return CheckUnchanged(head, url, file); },
          .failure = [url](const hub::HttpEnd& end) { return FailureOf(end, url); },
          .finish =
              [&cache, revision, file](const std::string& digest) {
                return digest.empty() ? absl::OkStatus() : cache.KeepDigest(revision, file, digest);
              }};
}

absl::Status CheckRoom(const hub::DownloadPlace& place,
                       const std::vector<hub::BlobSource>& missing) {
  int64_t needed = 0;
  for (const hub::BlobSource& source : missing) {
    needed += source.bytes - hub::AllocatedBytes(source.partial);
  }
  const std::optional<int64_t> free = hub::FreeBytes(place.folder);
  if (!free || needed <= *free) return absl::OkStatus();
  return hub::DiskFull(place.folder, needed, place.name);
}

}  // namespace

absl::StatusOr<ResolvedUrl> ResolveUrl(const hub::Settings& settings, const UrlSource& source,
                                       const std::function<bool()>& cancelled) {
  const UrlCache cache(settings.cache, source);
  std::optional<std::string> cached = cache.Newest();
  if (cached && !FindUrl(settings, source, *cached).ok()) cached.reset();
  if (settings.offline) {
    if (!cached) return NotInCache(settings, source, "nothing, and HF_HUB_OFFLINE is set: nothing");
    return ResolvedUrl{*cached, absl::UnavailableError(absl::StrCat(
                                    "HF_HUB_OFFLINE is set: ", NameOf(source), " is not asked"))};
  }
  hub::Settings once = settings;
  if (cached) once.limits.attempts = 1;  // there is something else to use
  const absl::StatusOr<UrlListing> listing = Ask(once, source, cancelled);
  if (cached && absl::IsUnavailable(listing.status())) {
    return ResolvedUrl{*cached, listing.status()};
  }
  RETURN_IF_ERROR(listing.status());
  RETURN_IF_ERROR(cache.Keep(*listing));
  return ResolvedUrl{RevisionOf(*listing), absl::OkStatus()};
}

absl::StatusOr<UrlCopy> FindUrl(const hub::Settings& settings, const UrlSource& source,
                                const std::string& revision) {
  const UrlCache cache(settings.cache, source);
  std::optional<UrlListing> listing = cache.Listing(revision);
  if (!listing) return NotInCache(settings, source, "nothing");
  const UrlListing missing = MissingOf(cache, revision, *listing);
  if (missing.empty()) return CopyOf(cache, source, revision, *std::move(listing));
  return NotInCache(settings, source, absl::StrCat("not ", missing.front().name));
}

absl::StatusOr<UrlCopy> FetchUrl(const hub::Settings& settings, const UrlSource& source,
                                 const std::string& revision, const UrlHooks& hooks) {
  if (settings.offline) return FindUrl(settings, source, revision);
  const UrlCache cache(settings.cache, source);
  std::optional<UrlListing> listing = cache.Listing(revision);
  if (!listing) {
    ASSIGN_OR_RETURN(listing, AskAgain(settings, source, cache, revision, hooks.cancelled));
  }
  const hub::DownloadPlace place{.settings = settings,
                                 .reach = hub::Reach::kForeign,
                                 .name = NameOf(source),
                                 .folder = cache.Folder(revision)};
  hub::Progress there;
  std::vector<hub::BlobSource> missing;
  for (const UrlFile& file : *listing) {
    if (cache.Has(revision, file)) {
      there.bytes += file.bytes;
      ++there.files;
    } else {
      missing.push_back(SourceOf(cache, source, revision, file));
    }
  }
  if (!missing.empty()) {
    std::error_code error;
    std::filesystem::create_directories(place.folder, error);
    if (error) return ErrnoStatus(error.value(), "make", place.folder);
    RETURN_IF_ERROR(CheckRoom(place, missing));
  }
  const hub::DownloadOptions options{.cancelled = hooks.cancelled, .progress = hooks.progress};
  hub::DownloadRun run(place, options, there, std::move(missing));
  RETURN_IF_ERROR(run.Run());
  UrlCopy copy = CopyOf(cache, source, revision, *std::move(listing));
  copy.fetched_bytes = run.fetched_bytes();
  return copy;
}

std::string PathOfUrl(const hub::Settings& settings, const UrlSource& source,
                      const std::string& revision) {
  const UrlCache cache(settings.cache, source);
  if (source.kind == UrlKind::kModel) return cache.Folder(revision);
  return cache.File(revision, {.name = FileNameOf(source.url), .identity = "", .bytes = 0});
}

}  // namespace coxswain::web
