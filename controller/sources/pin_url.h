// URLs and uploads become files of a controller: once, when a job is accepted.
#ifndef COXSWAIN_CONTROLLER_SOURCES_PIN_URL_H_
#define COXSWAIN_CONTROLLER_SOURCES_PIN_URL_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "common/web/url_source.h"
#include "controller/sources/hub_access.h"

namespace coxswain::sources {

// Whether `url` is "upload://...", a file that was brought to the controller.
bool IsUpload(const std::string& url);

struct PinnedUrl {
  std::string name;      // for people, without secrets
  std::string path;      // absolute: where the cache has it, or will; of an upload, where it is
  std::string revision;  // web::ResolveUrl's; of an upload its SHA-256
  std::string note;      // what the user should know; empty: nothing
};

// Errors as MakeUrlSource, ResolveUrl and HubCaller::upload; InvalidArgument: an upload in the
// place of a model.
absl::StatusOr<PinnedUrl> PinUrl(const HubCaller& caller, web::UrlKind kind, const std::string& url,
                                 const std::function<bool()>& cancelled);

}  // namespace coxswain::sources

#endif  // COXSWAIN_CONTROLLER_SOURCES_PIN_URL_H_
