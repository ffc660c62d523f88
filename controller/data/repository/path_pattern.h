// Patterns of files of a repository, as datasets resolves them.
// Source: fsspec 2026.9, glob_translate; datasets 5.2, data_files.py resolve_pattern.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_PATH_PATTERN_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_PATH_PATTERN_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

// Whether it has *, ? or [: else it is a path.
bool IsPattern(std::string_view pattern);

// A path below `folder` ("": the repository's root), without "./" and empty parts. InvalidArgument:
// it leaves the folder, or is absolute or an address.
absl::StatusOr<std::string> PathBelow(std::string_view folder, std::string_view path);

// Those of `files`, sorted, that `pattern` means. `*`, `?` and `[...]` stand for what is no slash,
// a part `**` for parts of any number. Hidden files and folders, folders that begin with two
// underscores, and files of the library's own (README.md, config.json, dataset_info.json, ...) are
// meant only where the pattern names them. InvalidArgument: ** beside other characters.
absl::StatusOr<std::vector<std::string>> FilesMeant(std::string_view pattern,
                                                    const std::vector<std::string>& files);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_PATH_PATTERN_H_
