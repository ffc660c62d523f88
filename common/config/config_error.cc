#include "common/config/config_error.h"

#include <algorithm>

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

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string_view Suggest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  int best_distance = std::max<int>(1, static_cast<int>(word.size()) / 3) + 1;
  for (std::string_view candidate : candidates) {
    const int distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace coxswain::config
