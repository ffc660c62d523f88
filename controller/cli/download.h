// Copying a job's artifact.
#ifndef COXSWAIN_CONTROLLER_CLI_DOWNLOAD_H_
#define COXSWAIN_CONTROLLER_CLI_DOWNLOAD_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/client.h"

namespace coxswain::cli {

// Writes every artifact file of `job` below `directory`, which is made; a file is complete or
// absent (written beside its name, then renamed). `progress` may be null; it gets each finished
// file. Returns the paths. InvalidArgument: a name that leads outside the directory; DataLoss:
// fewer or more bytes came than were announced.
absl::StatusOr<std::vector<std::string>> DownloadArtifacts(
    Client* client, const std::string& job, const std::string& directory,
    const std::function<void(const v1::Artifact&)>& progress);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_DOWNLOAD_H_
