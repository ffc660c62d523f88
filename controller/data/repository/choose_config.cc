#include "controller/data/repository/choose_config.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::data {

absl::StatusOr<size_t> ChooseConfig(const std::vector<std::string>& names, std::string_view asked,
                                    std::string_view preferred) {
  constexpr size_t kNamesInMessages = 50;
  for (const std::string_view name : {asked, preferred, std::string_view("default")}) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (!name.empty() && found != names.end()) return static_cast<size_t>(found - names.begin());
    if (name.empty() || name != asked) continue;
    break;
  }
  if (asked.empty() && names.size() == 1) return 0;
  const size_t shown = std::min(names.size(), kNamesInMessages);
  return absl::InvalidArgumentError(absl::StrCat(
      asked.empty() ? std::string("has several configs; name one of them")
                    : absl::StrCat("has no config \"", std::string(asked), "\"; there are"),
      ": ", absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown == names.size() ? "" : absl::StrCat(" and ", names.size() - shown, " more")));
}

}  // namespace coxswain::data
