// What a job names by a URL.
#ifndef COXSWAIN_COMMON_WEB_URL_SOURCE_H_
#define COXSWAIN_COMMON_WEB_URL_SOURCE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::web {

enum class UrlKind {
  kFile,   // one file, of a dataset
  kModel,  // a folder that holds a model
};

// Made by MakeUrlSource alone.
struct UrlSource {
  UrlKind kind = UrlKind::kFile;
  std::string url;  // "https://..."; its query may be a secret
};

// InvalidArgument names `url`, without its secrets, and what to write instead: it is http, s3, gs
// or no URL at all, or has a user or a password.
absl::StatusOr<UrlSource> MakeUrlSource(UrlKind kind, const std::string& url);

// For messages: without secrets.
std::string NameOf(const UrlSource& source);

// The name of the file behind `url`: the last part of its path, at most 200 bytes of it. "data"
// where that is no name.
std::string FileNameOf(const std::string& url);

// The URL of file `name` in the folder `url`, whose query is kept.
std::string UrlIn(const std::string& url, const std::string& name);

// 1 to 200 bytes of UTF-8 without slashes and control characters; not "." and not "..".
bool IsFileName(std::string_view name);

}  // namespace coxswain::web

#endif  // COXSWAIN_COMMON_WEB_URL_SOURCE_H_
