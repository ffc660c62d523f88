#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"

namespace coxswain::api {
namespace {

absl::Status Collect(Files* files, const std::string& directory, const std::string& prefix,
                     std::vector<v1::Artifact>* out) {
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(directory));
  for (const FileEntry& entry : entries) {
    if (!IsUtf8(entry.name)) continue;  // not an export's, and no message could carry its name
    const std::string path = absl::StrCat(directory, "/", entry.name);
    if (entry.directory) {
      RETURN_IF_ERROR(Collect(files, path, absl::StrCat(prefix, entry.name, "/"), out));
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t bytes, files->Size(path));
    v1::Artifact& artifact = out->emplace_back();
    artifact.set_name(prefix + entry.name);
    artifact.set_bytes(bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::Artifact>> FindArtifacts(Files* files,
                                                        const std::string& directory) {
  std::vector<v1::Artifact> artifacts;
  RETURN_IF_ERROR(Collect(files, directory, "", &artifacts));
  return artifacts;
}

void ListArtifacts(Context& context, const v1::ListArtifactsRequest& request,
                   Reply<v1::ListArtifactsResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  const std::string directory = (*job)->job().artifact_dir();
  if (directory.empty()) {
    reply(absl::FailedPreconditionError(
        absl::StrCat("job ", (*job)->job().id(), " is ",
                     std::string(state::PhaseName((*job)->phase())),
                     ": artifacts exist once it has SUCCEEDED")));
    return;
  }
  auto found = std::make_shared<absl::StatusOr<std::vector<v1::Artifact>>>();
  Files* files = context.deps.files;
  context.deps.loop->Offload(
      Lane::kRequests, [files, directory, found] { *found = FindArtifacts(files, directory); },
      [directory, found, reply] {
        if (!found->ok()) {
          reply(found->status());
          return;
        }
        v1::ListArtifactsResponse response;
        response.set_directory(directory);
        for (v1::Artifact& artifact : **found) {
          *response.add_artifacts() = std::move(artifact);
        }
        reply(std::move(response));
      });
}

}  // namespace coxswain::api
