#include "common/config/local_path.h"

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace coxswain::config {
namespace {

bool LooksLikeHubId(const std::string& text) {
  const size_t slash = text.find('/');
  if (text[0] == '.' || slash == std::string::npos || slash + 1 == text.size() ||
      text.find('/', slash + 1) != std::string::npos) {
    return false;
  }
  for (const char* extension : {".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".arrow",
                                ".gz", ".zst", ".txt", ".safetensors"}) {
    if (text.ends_with(extension)) return false;
  }
  return text.find_first_of("*?[") == std::string::npos;
}

}  // namespace

absl::StatusOr<std::string> ResolveLocalPath(const std::string& text, const std::string& base_dir) {
  if (text.empty()) return absl::InvalidArgumentError("expected a path, got an empty string");
  if (text.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("a path holds no zero byte");
  }
  if (text.find("${") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": ${...} is not expanded; write the path out"));
  }
  if (text.find("://") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is a URL, which is not supported yet; download first and give the local path"));
  }
  if (text[0] == '~') {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": ~ is not expanded; write the path out"));
  }
  if (text[0] == '/') return std::filesystem::path(text).lexically_normal().string();
  if (LooksLikeHubId(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" reads as a hub id, which is not supported yet; download first ",
        "and give the directory (a local one is written ./", text, ")"));
  }
  if (base_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is relative, but the controller runs elsewhere; give an absolute path"));
  }
  return (std::filesystem::path(base_dir) / text).lexically_normal().string();
}

}  // namespace coxswain::config
