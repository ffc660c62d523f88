#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

absl::Status Collect(Files* files, const std::string& directory, const std::string& prefix,
                     std::vector<FoundArtifact>* out) {
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(directory));
  for (const FileEntry& entry : entries) {
    if (!IsUtf8(entry.name)) continue;  // not an export's, and no message could carry its name
    const std::string path = absl::StrCat(directory, "/", entry.name);
    if (entry.directory) {
      RETURN_IF_ERROR(Collect(files, path, absl::StrCat(prefix, entry.name, "/"), out));
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t bytes, files->Size(path));
    FoundArtifact& found = out->emplace_back();
    found.artifact.set_name(prefix + entry.name);
    found.artifact.set_bytes(bytes);
    found.path = path;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<FoundArtifact>> FindArtifacts(Files* files,
                                                         const ArtifactPlaces& places) {
  std::vector<FoundArtifact> artifacts;
  RETURN_IF_ERROR(Collect(files, places.directory, "", &artifacts));
  if (!places.merged.empty()) {
    RETURN_IF_ERROR(Collect(files, places.merged, "model/", &artifacts));
  }
  std::sort(artifacts.begin(), artifacts.end(), [](const FoundArtifact& a, const FoundArtifact& b) {
    return a.artifact.name() < b.artifact.name();
  });
  return artifacts;
}

absl::StatusOr<ArtifactPlaces> PlacesOf(const v1::Job& job) {
  if (!job.artifact_dir().empty()) return ArtifactPlaces{job.artifact_dir(), job.merged_dir()};
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " is ",
                                                    std::string(state::PhaseName(job.state())),
                                                    ": artifacts exist once it has SUCCEEDED"));
}

void ListArtifacts(Context& context, const v1::ListArtifactsRequest& request,
                   Reply<v1::ListArtifactsResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  absl::StatusOr<ArtifactPlaces> places = job.ok() ? PlacesOf((*job)->job()) : job.status();
  if (!places.ok()) {
    reply(places.status());
    return;
  }
  auto found = std::make_shared<absl::StatusOr<std::vector<FoundArtifact>>>();
  Files* files = context.deps.files;
  context.deps.loop->Offload(Lane::kRequests,
                             GuardedInto(found, [files, places = *places,
                                                 found] { *found = FindArtifacts(files, places); }),
                             [directory = places->directory, found, reply] {
                               if (!found->ok()) {
                                 reply(found->status());
                                 return;
                               }
                               v1::ListArtifactsResponse response;
                               response.set_directory(directory);
                               for (FoundArtifact& one : **found)
                                 *response.add_artifacts() = std::move(one.artifact);
                               reply(std::move(response));
                             });
}

}  // namespace coxswain::api
