#include "common/config/config_error.h"

#include "absl/strings/str_cat.h"

namespace coxswain::config {

std::string FormatErrors(const std::vector<ConfigError>& errors, const std::string& yaml_path) {
  std::string text;
  for (const ConfigError& error : errors) {
    absl::StrAppend(&text, yaml_path);
    if (error.line > 0) absl::StrAppend(&text, ":", error.line);
    absl::StrAppend(&text, ": ");
    if (!error.path.empty()) absl::StrAppend(&text, error.path, ": ");
    absl::StrAppend(&text, error.message, "\n");
  }
  return text;
}

}  // namespace coxswain::config
