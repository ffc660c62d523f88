// Files of a job's export, confined to its directory.
#ifndef COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
#define COXSWAIN_CONTROLLER_API_ARTIFACTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/block_digests.h"
#include "controller/driver/job/job_table.h"
#include "controller/runtime/files.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::api {

struct ArtifactPlace {
  std::string directory;  // empty: there is none
  std::string digest;     // of the manifest there; empty: exported by a release that wrote none
  std::string later_job;  // without a digest: a job that exported to the same directory afterwards
};

// Where the artifacts of a job that has SUCCEEDED lie.
struct ArtifactPlaces {
  std::string job;
  ArtifactPlace artifact;  // Job.artifact_dir
  ArtifactPlace merged;    // Job.merged_dir, may be none
};

struct FoundArtifact {
  v1::Artifact artifact;
  std::string path;                     // absolute
  std::optional<BlockDigests> digests;  // that its bytes must have; none: nobody recorded them
};

// Every file of both that the job wrote, by name: relative to the artifact's directory, "model/"
// and the path for those of the merged model. FailedPrecondition: it is another job's by now, which
// is named, or was changed since. DataLoss names a file that is gone or has another size. Where no
// manifest is recorded, every regular file whose name is UTF-8.
absl::StatusOr<std::vector<FoundArtifact>> FindArtifacts(Files* files,
                                                         const ArtifactPlaces& places);

// FailedPrecondition: the job has none (yet).
absl::StatusOr<ArtifactPlaces> PlacesOf(driver::JobTable* jobs, const v1::Job& job);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ARTIFACTS_H_
