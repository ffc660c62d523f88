// Files of a job's export, confined to its directory.
#ifndef COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
#define COXSWAIN_CONTROLLER_API_ARTIFACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/files.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

// Every regular file below `directory` whose name is UTF-8, by relative path.
absl::StatusOr<std::vector<v1::Artifact>> FindArtifacts(Files* files, const std::string& directory);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
