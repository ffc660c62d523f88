// File names with *, ? and [...], as shells read them; ** is any number of folders.
#ifndef COXSWAIN_COMMON_FILES_GLOB_H_
#define COXSWAIN_COMMON_FILES_GLOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain {

// Whether `path` holds one of * ? [.
bool IsGlob(const std::string& path);

// The folder of `pattern` above its first component with one of * ? [: where a search begins.
std::string GlobBase(const std::string& pattern);

// The files (not folders) that match the absolute `pattern`, sorted. A leading dot is matched by a
// dot alone; ** enters no hidden folder and follows no link to one. A folder that is not there
// matches nothing; one that cannot be read is an error.
absl::StatusOr<std::vector<std::string>> FilesMatching(const std::string& pattern);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_GLOB_H_
