// Which files and records of a repository's splits `split:` selects.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_SELECT_SPLITS_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_SELECT_SPLITS_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/data/dataset_parts.h"
#include "controller/data/repository/resolve_repository.h"

namespace coxswain::data {

// `expression` as in split_expression.h; the paths are those of the repository. InvalidArgument: it
// is no expression, or names a split that is not there.
absl::StatusOr<DatasetFiles> SelectSplits(const std::vector<SplitFiles>& splits,
                                          std::string_view expression);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_SELECT_SPLITS_H_
