#include "controller/cli/import/translation/hub_name.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace coxswain::job_import {
namespace {

bool EndsWith(const std::string& text, const std::string& ending) {
  return text.size() > ending.size() &&
         text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

// Reads as a path by its first letter: of this folder, of the root, of a home, of a variable.
bool IsFormed(const std::string& text) {
  return text[0] == '.' || text[0] == '/' || text[0] == '~' || text[0] == '$';
}

}  // namespace

bool IsHubName(const std::string& text, const std::string& base_dir) {
  if (text.empty() || IsFormed(text)) return false;
  if (text.find(':') != std::string::npos) return false;
  if (std::count(text.begin(), text.end(), '/') > 1 || text.back() == '/') return false;
  for (const char* ending :
       {".json", ".jsonl", ".csv", ".parquet", ".arrow", ".txt", ".gz", ".zst"}) {
    if (EndsWith(text, ending)) return false;
  }
  std::error_code error;
  return !std::filesystem::exists(std::filesystem::path(base_dir) / text, error);
}

bool IsPlaceholder(const std::string& text) {
  return text.size() > 2 && text.front() == '<' && text.back() == '>';
}

std::string LocalForm(const std::string& text) {
  const bool formed = text.empty() || IsFormed(text) || text.find("://") != std::string::npos;
  return formed ? text : absl::StrCat("./", text);
}

}  // namespace coxswain::job_import
