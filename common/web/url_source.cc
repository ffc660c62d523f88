#include "common/web/url_source.h"

#include <curl/curl.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::web {
namespace {

constexpr size_t kMostNameBytesOnDisk = 200;  // room for what the cache puts before it
constexpr char kNoName[] = "data";

class ParsedUrl {
 public:
  explicit ParsedUrl(const std::string& text) : url_(curl_url(), curl_url_cleanup) {
    ok_ = curl_url_set(url_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  bool ok() const { return ok_; }
  // Empty where there is none.
  std::string Part(CURLUPart part, unsigned int flags = 0) const {
    char* text = nullptr;
    if (!ok_ || curl_url_get(url_.get(), part, &text, flags) != CURLUE_OK) return "";
    std::string copy = text;
    curl_free(text);
    return copy;
  }
  void Set(CURLUPart part, const std::string& text) {
    curl_url_set(url_.get(), part, text.empty() ? nullptr : text.c_str(), 0);
  }

 private:
  std::unique_ptr<CURLU, void (*)(CURLU*)> url_;
  bool ok_ = false;
};

// What is said of a scheme that is not https.
std::string InsteadOf(const std::string& url) {
  const std::string text = absl::AsciiStrToLower(url);
  if (absl::StartsWith(text, "http://")) {
    return "what comes over http can be changed on the way: write https://, or download it and "
           "write its path";
  }
  if (absl::StartsWith(text, "s3://") || absl::StartsWith(text, "gs://")) {
    return "object stores are not read yet: mount the bucket and write the path, or write an "
           "https:// address of the object";
  }
  return "write an address that begins with https://";
}

}  // namespace

absl::StatusOr<UrlSource> MakeUrlSource(UrlKind kind, const std::string& url) {
  const std::string shown = hub::PublicUrl(url);
  const ParsedUrl parsed(url);
  if (!parsed.ok() || parsed.Part(CURLUPART_SCHEME) != "https" ||
      !absl::StartsWith(absl::AsciiStrToLower(url), "https://")) {
    return absl::InvalidArgumentError(absl::StrCat(shown, ": ", InsteadOf(url)));
  }
  if (!parsed.Part(CURLUPART_USER).empty() || !parsed.Part(CURLUPART_PASSWORD).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown,
                     " has a user or a password, which every reader of the job would see: give an "
                     "address that needs none, for example a presigned one"));
  }
  if (kind == UrlKind::kFile && absl::EndsWith(parsed.Part(CURLUPART_PATH), "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat(shown, " is a folder: write the address of each file"));
  }
  return UrlSource{.kind = kind, .url = url};
}

std::string NameOf(const UrlSource& source) { return hub::PublicUrl(source.url); }

std::string FileNameOf(const std::string& url) {
  const std::string path = ParsedUrl(url).Part(CURLUPART_PATH, CURLU_URLDECODE);
  std::string name = path.substr(path.rfind('/') + 1);
  // Its end says the format.
  if (name.size() > kMostNameBytesOnDisk) name.erase(0, name.size() - kMostNameBytesOnDisk);
  return IsFileName(name) ? name : kNoName;
}

std::string UrlIn(const std::string& url, const std::string& name) {
  ParsedUrl parsed(url);
  std::string folder = parsed.Part(CURLUPART_PATH);
  if (!absl::EndsWith(folder, "/")) folder += '/';
  parsed.Set(CURLUPART_PATH, folder + hub::EscapeSegment(name));
  return parsed.Part(CURLUPART_URL);
}

bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMostNameBytesOnDisk && name != "." && name != ".." &&
         name.find('/') == name.npos && OneLine(name, 4 * kMostNameBytesOnDisk + 64) == name;
}

}  // namespace coxswain::web
