#include "common/web/url_cache.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/files/read_file.h"
#include "common/hub/api/url.h"
#include "common/hub/cache/repository_cache.h"
#include "common/status_macros.h"

namespace coxswain::web {
namespace {

constexpr size_t kPartDigits = 16;
constexpr int64_t kMostRevisionBytes = 100;

}  // namespace

UrlCache::UrlCache(const std::string& root, const UrlSource& source)
    : source_(source), folder_(absl::StrCat(root, "/coxswain-urls/", ToHex(Sha256(source.url)))) {}

std::string UrlCache::Folder(const std::string& revision) const {
  return absl::StrCat(folder_, "/", revision);
}

std::string UrlCache::File(const std::string& revision, const UrlFile& file) const {
  return absl::StrCat(Folder(revision), "/", file.name);
}

std::string UrlCache::Beside(const std::string& revision, const UrlFile& file,
                             const char* what) const {
  return absl::StrCat(Folder(revision), ".", ToHex(Sha256(file.name)).substr(0, kPartDigits), ".",
                      what);
}

std::optional<UrlListing> UrlCache::Listing(const std::string& revision) const {
  const absl::StatusOr<std::string> text = ReadFile(Folder(revision) + ".json");
  const absl::StatusOr<UrlListing> listing = text.ok() ? ListingOfJson(*text) : text.status();
  if (!listing.ok() || RevisionOf(*listing) != revision) return std::nullopt;
  return *listing;
}

std::optional<std::string> UrlCache::Newest() const {
  absl::StatusOr<std::string> text = ReadFile(folder_ + "/newest", kMostRevisionBytes);
  if (!text.ok()) return std::nullopt;
  absl::StripAsciiWhitespace(&*text);
  return *text;
}

absl::Status UrlCache::Keep(const UrlListing& listing) const {
  const std::string revision = RevisionOf(listing);
  if (!Listing(revision)) {
    RETURN_IF_ERROR(hub::WriteCacheText(Folder(revision) + ".json", ToJson(source_, listing)));
  }
  if (Newest() == revision) return absl::OkStatus();
  return hub::WriteCacheText(folder_ + "/newest", revision);
}

absl::Status UrlCache::KeepDigest(const std::string& revision, const UrlFile& file,
                                  const std::string& sha256) const {
  const nlohmann::json kept = {{"url", hub::PublicUrl(UrlOf(source_, file))},
                               {"identity", file.identity},
                               {"size", file.bytes},
                               {"sha256", sha256}};
  return hub::WriteCacheText(
      Beside(revision, file, "json"),
      kept.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

bool UrlCache::Has(const std::string& revision, const UrlFile& file) const {
  return hub::IsFileOf(File(revision, file), file.bytes);
}

}  // namespace coxswain::web
