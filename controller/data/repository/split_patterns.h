// Which files of a repository are which split where nobody says so: by their names, as datasets
// guesses.
// Source: datasets 5.2, data_files.py _get_data_files_patterns.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_SPLIT_PATTERNS_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_SPLIT_PATTERNS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

struct SplitPatterns {
  std::string split;
  std::vector<std::string> patterns;  // of path_pattern.h, below a folder
};

// The patterns of the first of these that any file below `folder` is meant by: data/SPLIT-NNNNN-of-
// NNNNN*.*, folders named by a split, files named by one, all files as train. Empty: there is no
// file. InvalidArgument: a split of the first form has no name of a split.
absl::StatusOr<std::vector<SplitPatterns>> GuessSplits(std::string_view folder,
                                                       const std::vector<std::string>& files);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_SPLIT_PATTERNS_H_
