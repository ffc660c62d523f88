// The hub's own copy of a dataset repository in Parquet: branch refs/convert/parquet, whose files
// are CONFIG/SPLIT/NNNN.parquet. A split of which the hub converted the first 5 GB alone is
// partial-SPLIT.
// Source: documentation of the dataset viewer, "List Parquet files".
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_CONVERTED_BRANCH_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_CONVERTED_BRANCH_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "controller/data/repository/resolve_repository.h"

namespace coxswain::data {

inline constexpr std::string_view kConvertedBranch = "refs/convert/parquet";

// `branch` asks for the files of that branch, `why` is RepositoryData::use_converted of the
// repository. InvalidArgument names the repository: there is no such file (no file at all: the hub
// has no copy), the config is not there, or several are and none was asked for.
absl::StatusOr<RepositoryData> ResolveConverted(const RepositoryQuery& branch,
                                                std::string_view why);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_CONVERTED_BRANCH_H_
