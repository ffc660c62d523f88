#include "controller/job_import/data_source.h"

#include "absl/strings/str_cat.h"
#include "controller/job_import/hub_name.h"

namespace coxswain::job_import {

using Json = nlohmann::ordered_json;

void SetSourcePath(Translation* t, const Scope& scope, std::string_view key,
                   const std::string& name, const std::string& revision,
                   const std::string& base_dir) {
  std::string reason;
  if (IsHubName(name, base_dir)) {
    reason = absl::StrCat("download it first: ", DownloadCommand(name, "dataset", revision));
  }
  t->Set(scope, key, absl::StrCat(scope.target, "path"), LocalForm(name), reason);
}

void SetSplit(Translation* t, const Scope& scope, std::string_view key, const std::string& split) {
  t->Set(scope, key, absl::StrCat(scope.target, "split"), split);
}

void SetSubset(Translation* t, const Scope& scope, std::string_view key,
               const std::string& subset) {
  t->Set(scope, key, absl::StrCat(scope.target, "data_files"),
         Json::array({absl::StrCat(subset, "/*")}),
         "a configuration of a hub data set is by convention a folder of it: look that it is");
}

}  // namespace coxswain::job_import
