// The data files of a dataset of the Hub, in its snapshot.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_SNAPSHOT_DATA_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_SNAPSHOT_DATA_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/dataset_parts.h"
#include "controller/data/repository/resolve_repository.h"

namespace coxswain::data {

// Which files and records of a repository's splits `split:` selects.

// `expression` as in dataset_parts.h; the paths are those of the repository. InvalidArgument: it
// is no expression, or names a split that is not there.
absl::StatusOr<DatasetFiles> SelectSplits(const std::vector<SplitFiles>& splits,
                                          std::string_view expression);

// What dataset.hub means by the files that its commit lists and the README in the folder
// dataset.path. Only the README need be there. Errors as ResolveRepository, with
// dataset.converted as ResolveConverted.
absl::StatusOr<RepositoryData> ReadSnapshot(const config::DatasetSpec& dataset);

// The files of the splits that dataset.split asks for, with absolute paths, and which of their
// records. Without one: of training data `train`, of held-out data the first of the usual names
// (UsualSplits), and of a repository with one split that one. Errors as ReadSnapshot and
// SelectSplits; InvalidArgument: there is no such split.
absl::StatusOr<DatasetFiles> FilesOfSnapshot(const config::DatasetSpec& dataset);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_SNAPSHOT_DATA_H_
