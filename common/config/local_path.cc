#include "common/config/local_path.h"

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/named_sources.h"

namespace coxswain::config {
namespace {

absl::Status Bad(const std::string& text, const char* message) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\"", message));
}

// What the text looks like where no such file exists.
absl::Status CheckForm(const std::string& text, PathUse use) {
  if (text.find("://") != std::string::npos) {
    return Bad(text, use == PathUse::kWritten
                         ? " is a URL; a job's output must be a local path; export.push_to_hub or "
                           "cox push send it elsewhere"
                         : " is a URL that is not read here; mount the bucket and give the path, "
                           "or give an https:// URL of a model or a data file");
  }
  if (FindExpansion(text) != std::string::npos) {
    return Bad(text,
               ": not expanded; cox replaces a leading ~/ and $NAME or ${NAME} of an environment "
               "variable that is set; write the path out");
  }
  if (use != PathUse::kHub || !ReadsAsHubId(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no path that exists; download it first (cox pull ", text,
                   ") and give the folder that it prints"));
}

bool Exists(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

}  // namespace

absl::StatusOr<std::string> ResolveLocalPath(const std::string& text, const std::string& base_dir,
                                             PathUse use) {
  if (text.empty()) return absl::InvalidArgumentError("expected a path, got an empty string");
  if (text.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("a path holds no zero byte");
  }
  const std::filesystem::path path = std::filesystem::path(base_dir) / text;  // text, if absolute
  const absl::Status form = CheckForm(text, use);
  // The file system is asked only where the answer matters.
  if (!form.ok() && (path.is_relative() || !Exists(path))) return form;
  if (path.is_relative()) {
    return Bad(text, " is relative, but the controller runs elsewhere; give an absolute path");
  }
  return path.lexically_normal().string();
}

size_t FindExpansion(const std::string& text) {
  if (text.starts_with('~')) return 0;
  for (size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    if (next == '{' || next == '_' || absl::ascii_isalpha(static_cast<unsigned char>(next))) {
      return at;
    }
  }
  return std::string::npos;
}

}  // namespace coxswain::config
