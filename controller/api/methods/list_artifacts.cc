#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest_files.h"
#include "common/files/hash.h"
#include "common/guarded.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/api/artifacts.h"
#include "controller/api/operations.h"
#include "controller/folders/seal_folder.h"

namespace coxswain::api {
namespace {

// Of a release that left no manifest there.
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

absl::Status ReplacedBy(const std::string& job, const std::string& directory,
                        const std::string& other) {
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", other, " replaced the artifacts of job ", job, " in ", directory,
      ": what lies there is job ", other, "'s (cox download ", other, "). To have those of job ",
      job, " again, give each job a checkpoint.output_dir of its own and run it again"));
}

// The manifest that `place.job` left, or whose it is now.
absl::StatusOr<Seal> SealOf(Files* files, const std::string& job, const ArtifactPlace& place) {
  absl::StatusOr<Seal> seal = ReadSeal(files, place.directory);
  if (!seal.ok()) {
    return absl::Status(seal.status().code(),
                        absl::StrCat("what lies in ", place.directory, " is not what job ", job,
                                     " exported: ", std::string(seal.status().message())));
  }
  if (seal->author.job != job) return ReplacedBy(job, place.directory, seal->author.job);
  if (seal->digest == place.digest) return seal;
  return absl::FailedPreconditionError(
      absl::StrCat("what lies in ", place.directory, " is not what job ", job,
                   " exported: ", kExportManifestName, " has SHA-256 ", ToHex(seal->digest),
                   ", the job's had ", ToHex(place.digest)));
}

FoundArtifact ArtifactOf(const std::string& name, const std::string& path,
                         const BlockDigests& digests) {
  FoundArtifact found{.artifact = {}, .path = path, .digests = digests};
  found.artifact.set_name(name);
  found.artifact.set_bytes(digests.bytes);
  return found;
}

absl::Status CollectSealed(Files* files, const std::string& job, const ArtifactPlace& place,
                           const std::string& prefix, std::vector<FoundArtifact>* out) {
  ASSIGN_OR_RETURN(const Seal seal, SealOf(files, job, place));
  for (const ManifestFile& file : seal.files) {
    const std::string path = absl::StrCat(place.directory, "/", file.name);
    ASSIGN_OR_RETURN(const PathFacts facts, files->Look(path));
    if (facts.kind != PathFacts::Kind::kFile || facts.bytes != file.bytes) {
      return absl::DataLossError(absl::StrCat(
          path, ": has ", facts.kind == PathFacts::Kind::kFile ? facts.bytes : 0, " bytes, job ",
          job, " wrote ", file.bytes, ": it was changed or removed since"));
    }
    out->push_back(ArtifactOf(prefix + file.name, path, file.blocks()));
  }
  const std::string manifest = absl::StrCat(place.directory, "/", kExportManifestName);
  ASSIGN_OR_RETURN(const BlockDigests digests, files->Digests(manifest));
  out->push_back(ArtifactOf(absl::StrCat(prefix, kExportManifestName), manifest, digests));
  return absl::OkStatus();
}

absl::Status CollectPlace(Files* files, const std::string& job, const ArtifactPlace& place,
                          const std::string& prefix, std::vector<FoundArtifact>* out) {
  if (place.directory.empty()) return absl::OkStatus();
  if (!place.digest.empty()) return CollectSealed(files, job, place, prefix, out);
  const absl::StatusOr<Seal> seal = ReadSeal(files, place.directory);
  if (seal.ok() && seal->author.job != job) {
    return ReplacedBy(job, place.directory, seal->author.job);
  }
  if (!place.later_job.empty()) return ReplacedBy(job, place.directory, place.later_job);
  return Collect(files, place.directory, prefix, out);
}

// Whoever exported to `directory` last after `job` did.
std::string LaterJob(driver::JobTable* jobs, const v1::Job& job, const std::string& directory) {
  const v1::Job* last = &job;
  for (const driver::JobDriver* one : jobs->NewestFirst()) {
    const v1::Job& other = one->job();
    const bool there = other.artifact_dir() == directory || other.merged_dir() == directory;
    if (there && other.finished_unix_ms() > last->finished_unix_ms()) last = &other;
  }
  return last == &job ? "" : last->id();
}

ArtifactPlace PlaceOf(driver::JobTable* jobs, const v1::Job& job, const std::string& directory,
                      const std::string& digest) {
  if (directory.empty() || !digest.empty()) return {directory, digest, ""};
  return {directory, "", LaterJob(jobs, job, directory)};
}

}  // namespace

absl::StatusOr<std::vector<FoundArtifact>> FindArtifacts(Files* files,
                                                         const ArtifactPlaces& places) {
  std::vector<FoundArtifact> artifacts;
  RETURN_IF_ERROR(CollectPlace(files, places.job, places.artifact, "", &artifacts));
  RETURN_IF_ERROR(CollectPlace(files, places.job, places.merged, "model/", &artifacts));
  std::sort(artifacts.begin(), artifacts.end(), [](const FoundArtifact& a, const FoundArtifact& b) {
    return a.artifact.name() < b.artifact.name();
  });
  return artifacts;
}

absl::StatusOr<ArtifactPlaces> PlacesOf(driver::JobTable* jobs, const v1::Job& job) {
  if (!job.artifact_dir().empty()) {
    return ArtifactPlaces{job.id(), PlaceOf(jobs, job, job.artifact_dir(), job.artifact_digest()),
                          PlaceOf(jobs, job, job.merged_dir(), job.merged_digest())};
  }
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " is ",
                                                    std::string(state::PhaseName(job.state())),
                                                    ": artifacts exist once it has SUCCEEDED"));
}

void ListArtifacts(Context& context, const v1::ListArtifactsRequest& request,
                   Reply<v1::ListArtifactsResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  absl::StatusOr<ArtifactPlaces> places =
      job.ok() ? PlacesOf(context.jobs, (*job)->job()) : job.status();
  if (!places.ok()) {
    reply(places.status());
    return;
  }
  auto found = std::make_shared<absl::StatusOr<std::vector<FoundArtifact>>>();
  Files* files = context.deps.files;
  context.deps.loop->Offload(Lane::kRequests,
                             GuardedInto(found, [files, places = *places,
                                                 found] { *found = FindArtifacts(files, places); }),
                             [directory = places->artifact.directory, found, reply] {
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
