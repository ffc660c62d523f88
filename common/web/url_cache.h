// Where the files of URLs are kept: beside the repositories of the Hub.
#ifndef COXSWAIN_COMMON_WEB_URL_CACHE_H_
#define COXSWAIN_COMMON_WEB_URL_CACHE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/web/url_listing.h"
#include "common/web/url_source.h"

namespace coxswain::web {

// Paths of one URL in the cache `root`. KEY is the SHA-256 of the URL, PART of a file's name.
//
//   coxswain-urls/KEY/newest               the revision that was resolved last, as text
//   coxswain-urls/KEY/REVISION.json        its list of files
//   coxswain-urls/KEY/REVISION/NAME        its files, complete
//   coxswain-urls/KEY/REVISION.PART.json   of a file: URL, identity, size and SHA-256
//   coxswain-urls/KEY/REVISION.PART.incomplete, .lock
class UrlCache {
 public:
  UrlCache(const std::string& root, const UrlSource& source);

  std::string Folder(const std::string& revision) const;
  std::string File(const std::string& revision, const UrlFile& file) const;
  // `what`: "json", "incomplete" or "lock".
  std::string Beside(const std::string& revision, const UrlFile& file, const char* what) const;

  // Nothing: none, or a damaged one.
  std::optional<UrlListing> Listing(const std::string& revision) const;
  std::optional<std::string> Newest() const;
  // Keeps a list of files, as the newest. Errors as ErrnoStatus.
  absl::Status Keep(const UrlListing& listing) const;
  // Notes what a file that was downloaded has.
  absl::Status KeepDigest(const std::string& revision, const UrlFile& file,
                          const std::string& sha256) const;
  bool Has(const std::string& revision, const UrlFile& file) const;  // by its size

 private:
  const UrlSource source_;
  const std::string folder_;
};

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_URL_CACHE_H_
