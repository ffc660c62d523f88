#include "controller/export/artifact_files.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/read_file.h"
#include "common/status_macros.h"

namespace coxswain::exports {

absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(from, "/", name);
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) continue;
    ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
    RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(to, "/", name), content));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::exports
