#include "controller/sources/pin_url.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/named_sources.h"
#include "common/status_macros.h"
#include "common/web/fetch_url.h"

namespace coxswain::sources {
namespace {

absl::StatusOr<PinnedUrl> PinUpload(const HubCaller& caller, web::UrlKind kind,
                                    const std::string& url) {
  if (kind == web::UrlKind::kModel) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", url,
        "\" is one file, and a model is a folder; give its name on the Hub, an https:// "
        "URL or a path"));
  }
  if (!caller.upload) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", url, "\" lies at a controller; submit the job there, or give the file's own path"));
  }
  ASSIGN_OR_RETURN(std::string path, caller.upload(url));
  const size_t begin = config::kUploadScheme.size();
  return PinnedUrl{.name = url,
                   .path = std::move(path),
                   .revision = url.substr(begin, url.find('/', begin) - begin),
                   .note = ""};
}

}  // namespace

bool IsUpload(const std::string& url) { return url.starts_with(config::kUploadScheme); }

absl::StatusOr<PinnedUrl> PinUrl(const HubCaller& caller, web::UrlKind kind, const std::string& url,
                                 const std::function<bool()>& cancelled) {
  if (IsUpload(url)) return PinUpload(caller, kind, url);
  ASSIGN_OR_RETURN(const web::UrlSource source, web::MakeUrlSource(kind, url));
  ASSIGN_OR_RETURN(const web::ResolvedUrl resolved,
                   web::ResolveUrl(caller.settings, source, cancelled));
  PinnedUrl pinned{.name = web::NameOf(source),
                   .path = web::PathOfUrl(caller.settings, source, resolved.revision),
                   .revision = resolved.revision,
                   .note = ""};
  if (!resolved.from_cache.ok()) {
    pinned.note =
        absl::StrCat(std::string(resolved.from_cache.message()), "; what the cache has is taken");
  }
  return pinned;
}

}  // namespace coxswain::sources
