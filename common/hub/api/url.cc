#include "common/hub/api/url.h"

#include <curl/curl.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

class CurlUrl {
 public:
  CurlUrl() : url_(curl_url(), curl_url_cleanup) {}

  bool Set(const std::string& text) {
    return curl_url_set(url_.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  // Empty where the URL has no such part.
  std::string Part(CURLUPart part, unsigned int flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), part, &text, flags) != CURLUE_OK) return "";
    std::string copy = text;
    curl_free(text);
    return copy;
  }
  void Clear(CURLUPart part) { curl_url_set(url_.get(), part, nullptr, 0); }
  bool IsHttp() const {
    const std::string scheme = Part(CURLUPART_SCHEME);
    return scheme == "http" || scheme == "https";
  }

 private:
  std::unique_ptr<CURLU, void (*)(CURLU*)> url_;
};

absl::Status NoUrl(const std::string& url) {
  return absl::InvalidArgumentError(absl::StrCat(PublicUrl(url), " is no URL of http or https"));
}

std::string Escaped(std::string_view text, std::string_view kept) {
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        kept.find(c) != std::string_view::npos) {
      escaped += c;
    } else {
      escaped += "%" + absl::AsciiStrToUpper(ToHex({&c, 1}));
    }
  }
  return escaped;
}

}  // namespace

absl::StatusOr<std::string> OriginOf(const std::string& url) {
  CurlUrl parsed;
  if (!parsed.Set(url) || !parsed.IsHttp()) return NoUrl(url);
  return absl::StrCat(parsed.Part(CURLUPART_SCHEME), "://",
                      absl::AsciiStrToLower(parsed.Part(CURLUPART_HOST)), ":",
                      parsed.Part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

absl::StatusOr<std::string> ResolveUrl(const std::string& base, const std::string& reference) {
  CurlUrl parsed;
  // The second URL is relative to the first.
  if (!parsed.Set(base) || !parsed.Set(reference) || !parsed.IsHttp()) return NoUrl(reference);
  return parsed.Part(CURLUPART_URL);
}

std::string PublicUrl(const std::string& url) {
  CurlUrl parsed;
  if (!parsed.Set(url)) return OneLine(url.substr(0, url.find_first_of("?#@")), kMostNameBytes);
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    parsed.Clear(part);
  }
  return OneLine(parsed.Part(CURLUPART_URL), kMostNameBytes);
}

bool HasSecrets(const std::string& url) {
  CurlUrl parsed;
  if (!parsed.Set(url)) return false;
  for (const CURLUPart part :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (!parsed.Part(part).empty()) return true;
  }
  return false;
}

std::string EscapeSegment(std::string_view text) { return Escaped(text, "-._~"); }
std::string EscapePath(std::string_view text) { return Escaped(text, "-._~/"); }

}  // namespace coxswain::hub
