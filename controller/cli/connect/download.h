// Copies a job's artifact.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_DOWNLOAD_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_DOWNLOAD_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/cli/connect/client.h"

namespace coxswain::cli {

// Writes every artifact file of `job` below `directory`, which it makes. A file is complete or
// absent: it is written under another name, then renamed. `progress` is called for each finished
// file; it may be null. Returns the paths. InvalidArgument: a name leads outside the directory.
// DataLoss: fewer or more bytes arrived than were announced.
absl::StatusOr<std::vector<std::string>> DownloadArtifacts(
    Client* client, const std::string& job, const std::string& directory,
    const std::function<void(const v1::Artifact&)>& progress);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_DOWNLOAD_H_
