#include "controller/cli/import/translation/hub_name.h"

#include <algorithm>
#include <filesystem>
#include <string>
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

using config::Node;

void TranslatePush(Translation* t, bool asked) {
  const std::string path = "spec.export.push_to_hub.";
  const std::string repo = TextOf(t->Take("hub_model_id"));
  const Node* push = t->Take("push_to_hub");
  const bool pushes = push == nullptr ? asked : IsOn(push);
  const Node* is_private = t->Take("hub_private_repo");
  const std::string revision = TextOf(t->Take("hub_revision"));
  if (!pushes || repo.empty()) {
    if (push != nullptr && pushes) {
      t->Differ("push_to_hub", "say the repository with its owner: export.push_to_hub.repo");
    } else if (push != nullptr) {
      t->LeaveOut("push_to_hub", "off");
    }
    for (const char* key : {"hub_model_id", "hub_private_repo", "hub_revision"}) {
      if (t->Has(key)) t->LeaveOut(key, "nothing is sent");
    }
    return;
  }
  if (push != nullptr) t->LeaveOut("push_to_hub", "export.push_to_hub.repo says it");
  if (IsPlaceholder(repo)) {
    t->Differ("hub_model_id", "a placeholder: nothing is sent; name your repository");
    return;
  }
  t->Set("hub_model_id", path + "repo", repo);
  if (is_private != nullptr) t->Set("hub_private_repo", path + "private", IsOn(is_private));
  if (!revision.empty()) t->Set("hub_revision", path + "revision", revision);
}

}  // namespace coxswain::job_import
