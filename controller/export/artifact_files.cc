#include "controller/export/artifact_files.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/status_macros.h"

namespace coxswain::exports {

absl::Status CopyFilesThatExist(const std::string& from, const std::string& to,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::ifstream in(absl::StrCat(from, "/", name), std::ios::binary);
    if (!in) continue;
    std::ostringstream text;
    text << in.rdbuf();
    RETURN_IF_ERROR(WriteFileDurably(absl::StrCat(to, "/", name), text.str()));
  }
  return absl::OkStatus();
}

}  // namespace coxswain::exports
