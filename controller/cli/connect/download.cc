#include "controller/cli/connect/download.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

absl::Status CheckName(const std::string& name) {
  const fs::path path(name);
  bool safe = !name.empty() && path.is_relative();
  for (const fs::path& part : path) safe = safe && part != "..";
  if (safe) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the artifact name \"", name, "\" leads outside the target directory"));
}

absl::Status FetchOne(Client* client, const std::string& job, const v1::Artifact& artifact,
                      const fs::path& target) {
  const fs::path part = target.string() + ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  if (!out)
    return absl::PermissionDeniedError(absl::StrCat(part.string(), ": ", std::strerror(errno)));
  v1::FetchRequest request;
  request.set_job(job);
  request.set_name(artifact.name());
  int64_t bytes = 0;
  RETURN_IF_ERROR(client->Fetch(request, [&](const v1::FetchResponse& chunk) {
    out.write(chunk.data().data(), static_cast<std::streamsize>(chunk.data().size()));
    bytes += static_cast<int64_t>(chunk.data().size());
    return out.good();
  }));
  out.close();
  if (!out)
    return absl::ResourceExhaustedError(
        absl::StrCat(part.string(), ": cannot write: ", std::strerror(errno)));
  if (bytes != artifact.bytes()) {
    return absl::DataLossError(
        absl::StrCat(artifact.name(), ": ", bytes, " of ", artifact.bytes(), " bytes came"));
  }
  std::error_code error;
  fs::rename(part, target, error);
  if (error) return absl::InternalError(absl::StrCat(target.string(), ": ", error.message()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> DownloadArtifacts(
    Client* client, const std::string& job, const std::string& directory,
    const std::function<void(const v1::Artifact&)>& progress) {
  ASSIGN_OR_RETURN(const v1::ListArtifactsResponse list, client->ListArtifacts(job));
  std::vector<std::string> paths;
  for (const v1::Artifact& artifact : list.artifacts()) {
    RETURN_IF_ERROR(CheckName(artifact.name()));
    const fs::path target = fs::path(directory) / artifact.name();
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat(target.parent_path().string(), ": ", error.message()));
    }
    const absl::Status fetched = FetchOne(client, job, artifact, target);
    if (!fetched.ok()) {
      fs::remove(target.string() + ".part", error);
      return fetched;
    }
    paths.push_back(target.string());
    if (progress) progress(artifact);
  }
  return paths;
}

}  // namespace coxswain::cli
