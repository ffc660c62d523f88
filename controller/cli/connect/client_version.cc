#include "controller/cli/connect/client_version.h"

#include "absl/strings/str_cat.h"
#include "common/identity.h"

namespace coxswain::cli {

std::string ClientVersion() {
  return absl::StrCat("cox ", std::string(BuildVersion()), " (", std::string(BuildCommit()), ")");
}

}  // namespace coxswain::cli
