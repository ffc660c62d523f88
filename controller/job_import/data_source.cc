#include "controller/job_import/data_source.h"

#include <algorithm>
#include <cctype>

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
  const size_t open = split.find('[');
  const std::string name = split.substr(0, open);
  t->Set(scope, key, absl::StrCat(scope.target, "split"), name);
  if (open == std::string::npos) return;
  const std::string slice = split.substr(open + 1, split.find(']') - open - 1);
  const bool first = slice.size() > 1 && slice.size() < 16 && slice[0] == ':' &&
                     std::all_of(slice.begin() + 1, slice.end(),
                                 [](unsigned char c) { return std::isdigit(c) != 0; });
  if (first) {
    t->Set(scope, key, absl::StrCat(scope.target, "max_samples"), std::stoll(slice.substr(1)),
           "the first of them");
  } else {
    t->Note(scope, Outcome::kDiffers, key,
            absl::StrCat("the whole split is read: a part such as [", slice,
                         "] has no counterpart; max_samples takes a count"));
  }
}

void SetSubset(Translation* t, const Scope& scope, std::string_view key,
               const std::string& subset) {
  t->Set(scope, key, absl::StrCat(scope.target, "data_files"),
         Json::array({absl::StrCat(subset, "/*")}),
         "a configuration of a hub data set is by convention a folder of it: look that it is");
}

}  // namespace coxswain::job_import
