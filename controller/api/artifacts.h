// Files of a job's export, confined to its directory.
#ifndef COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
#define COXSWAIN_CONTROLLER_API_ARTIFACTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/files.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

// Where the artifacts of a job that has SUCCEEDED lie.
struct ArtifactPlaces {
  std::string directory;  // Job.artifact_dir
  std::string merged;     // Job.merged_dir, may be empty
};

struct FoundArtifact {
  v1::Artifact artifact;
  std::string path;  // absolute
};

// Every regular file of both whose name is UTF-8, by name: relative to `directory`, "model/" and
// the path for those of `merged`.
absl::StatusOr<std::vector<FoundArtifact>> FindArtifacts(Files* files,
                                                         const ArtifactPlaces& places);

// FailedPrecondition: the job has none (yet).
absl::StatusOr<ArtifactPlaces> PlacesOf(const v1::Job& job);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
