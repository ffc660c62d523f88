#include "common/web/url_listing.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/outside_text.h"

namespace coxswain::web {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr size_t kRevisionDigits = 40;

absl::StatusOr<UrlFile> FileOf(const std::string& name, const Json& entry) {
  const absl::Status damaged = absl::DataLossError(absl::StrCat(
      "the entry of ", OneLine(name, kMostNameBytes), " in a list of files is damaged"));
  if (!IsFileName(name) || !entry.is_object()) return damaged;
  const auto identity = entry.find("identity"), size = entry.find("size");
  if (identity == entry.end() || !identity->is_string() || size == entry.end() ||
      !size->is_number_unsigned()) {
    return damaged;
  }
  return UrlFile{
      .name = name, .identity = identity->get<std::string>(), .bytes = size->get<int64_t>()};
}

}  // namespace

std::string IdentityOf(const hub::HttpHead& head) {
  const std::string etag = OneLine(head.Header("etag"), kMostNameBytes);
  const std::string modified = OneLine(head.Header("last-modified"), kMostNameBytes);
  if (absl::StartsWith(etag, "\"")) return "etag " + etag;
  if (!modified.empty()) return "modified " + modified;
  return etag.empty() ? "" : "etag " + etag;
}

std::string RevisionOf(const UrlListing& listing) {
  std::string text;
  for (const UrlFile& file : listing) {
    absl::StrAppend(&text, file.name, "\n", file.identity, "\n", file.bytes, "\n");
  }
  return ToHex(Sha256(text)).substr(0, kRevisionDigits);
}

std::string UrlOf(const UrlSource& source, const UrlFile& file) {
  return source.kind == UrlKind::kFile ? source.url : UrlIn(source.url, file.name);
}

std::string ToJson(const UrlSource& source, const UrlListing& listing) {
  Json files = Json::object();
  for (const UrlFile& file : listing) {
    files[file.name] = {{"identity", file.identity}, {"size", file.bytes}};
  }
  return Json{{"format_version", kFormat}, {"url", NameOf(source)}, {"files", files}}.dump(
      2, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<UrlListing> ListingOfJson(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format_version", 0) != kFormat || !json.contains("files") ||
      !json["files"].is_object() || json["files"].empty()) {
    return absl::DataLossError("a list of files is damaged");
  }
  UrlListing listing;
  for (const auto& [name, entry] : json["files"].items()) {  // by name
    const absl::StatusOr<UrlFile> file = FileOf(name, entry);
    if (!file.ok()) return file.status();
    listing.push_back(*file);
  }
  return listing;
}

}  // namespace coxswain::web
