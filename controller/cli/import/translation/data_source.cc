#include "controller/cli/import/translation/data_source.h"

#include "absl/strings/str_cat.h"
#include "controller/cli/import/translation/hub_name.h"

namespace coxswain::job_import {
namespace {

using Json = nlohmann::ordered_json;

std::string Place(const Scope& scope, std::string_view name) {
  return absl::StrCat(scope.target, std::string(name));
}

void SetFolder(Translation* t, const Scope& scope, std::string_view key, const std::string& folder,
               std::string_view reason) {
  t->Set(scope, key, Place(scope, "data_files"), Json::array({absl::StrCat(folder, "/*")}), reason);
}

}  // namespace

SourcePlace SetSourcePath(Translation* t, const Scope& scope, std::string_view key,
                          const std::string& name, const std::string& base_dir) {
  if (IsPlaceholder(name)) t->Note(scope, Outcome::kRefused, key, "a placeholder: name your data");
  if (IsHubName(name, base_dir)) {
    const bool owned = name.find('/') != std::string::npos;  // else it reads as a path
    t->Set(scope, key, Place(scope, owned ? "path" : "hub"), name);
    return SourcePlace::kHub;
  }
  t->Set(scope, key, Place(scope, "path"), LocalForm(name));
  return name.find("://") == std::string::npos ? SourcePlace::kLocal : SourcePlace::kUrl;
}

void SetSplit(Translation* t, const Scope& scope, std::string_view key, const std::string& split) {
  t->Set(scope, key, Place(scope, "split"), split);
}

void SetSubset(Translation* t, const Scope& scope, std::string_view key, const std::string& subset,
               SourcePlace place) {
  if (place == SourcePlace::kHub) {
    t->Set(scope, key, Place(scope, "name"), subset);
  } else if (place == SourcePlace::kUrl) {
    t->Note(scope, Outcome::kLeftOut, key, "one file has no configs");
  } else {
    SetFolder(t, scope, key, subset,
              "in a local folder a config is by convention a folder: look that it is");
  }
}

void SetDataDir(Translation* t, const Scope& scope, std::string_view key, const std::string& folder,
                SourcePlace place) {
  if (place == SourcePlace::kHub) {
    t->Set(scope, key, Place(scope, "data_dir"), folder);
  } else if (place == SourcePlace::kUrl) {
    t->Note(scope, Outcome::kLeftOut, key, "one file has no folders");
  } else {
    SetFolder(t, scope, key, folder, "");
  }
}

void SetRevision(Translation* t, const Scope& scope, std::string_view key,
                 const std::string& revision, SourcePlace place) {
  if (revision.empty()) return;
  if (place == SourcePlace::kHub) {
    t->Set(scope, key, Place(scope, "revision"), revision);
  } else {
    t->Note(scope, Outcome::kLeftOut, key, "only names of the Hub have revisions");
  }
}

}  // namespace coxswain::job_import
