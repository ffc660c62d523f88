#include "worker/supervisor/endpoint.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace coxswain::supervisor {

absl::StatusOr<Endpoint> ReadEndpoint(const std::string& state_dir, int index) {
  const std::string file = absl::StrCat(state_dir, "/worker-", index, ".json");
  std::ifstream in(file);
  const auto json = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::UnavailableError(
        absl::StrCat("no worker serves here: ", file, " does not exist or is no endpoint file"));
  }
  return Endpoint{.address = json.value("address", std::string()),
                  .incarnation = json.value("incarnation", std::string()),
                  .pid = json.value("pid", pid_t{0}),
                  .registered = json.value("registered", false)};
}

}  // namespace coxswain::supervisor
