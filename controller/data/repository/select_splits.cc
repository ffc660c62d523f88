#include "controller/data/repository/select_splits.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace coxswain::data {

absl::StatusOr<DatasetFiles> SelectSplits(const std::vector<SplitFiles>& splits,
                                          std::string_view expression) {
  ASSIGN_OR_RETURN(const std::vector<SplitSlice> slices, ParseSplitExpression(expression));
  DatasetFiles selected;
  for (const SplitSlice& slice : slices) {
    size_t found = 0;
    for (const SplitFiles& split : splits) {
      if (!slice.split.empty() && split.split != slice.split) continue;
      ++found;
      selected.parts.push_back({.files = split.files.size(), .rows = slice});
      selected.paths.insert(selected.paths.end(), split.files.begin(), split.files.end());
    }
    if (found > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there is no split \"", slice.split, "\"; there are ",
                     absl::StrJoin(splits, ", ", [](std::string* out, const SplitFiles& split) {
                       out->append(split.split);
                     })));
  }
  return selected;
}

}  // namespace coxswain::data
