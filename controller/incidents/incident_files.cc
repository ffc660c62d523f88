#include "controller/incidents/incident_files.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace coxswain::incidents {
namespace {

std::string EndOf(Reason reason) { return absl::StrCat("-", NameOf(reason), ".json"); }

}  // namespace

// By time, oldest first: names begin with it.
std::vector<std::string> IncidentFiles::NamesOf(const std::string& job,
                                                std::optional<Reason> reason) const {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<FileEntry>> entries = files_->List(FolderOf(job));
  if (!entries.ok()) return names;
  for (const FileEntry& entry : *entries) {
    if (!absl::EndsWith(entry.name, reason ? EndOf(*reason) : ".json")) continue;
    names.push_back(entry.name);
  }
  return names;
}

absl::StatusOr<std::string> IncidentFiles::Keep(const Incident& incident,
                                                const std::string& document) const {
  if (directory_.empty()) return std::string();
  const std::string folder = FolderOf(incident.job);
  RETURN_IF_ERROR(files_->MakeDirs(folder));
  const std::string path = absl::StrCat(folder, "/", absl::StrFormat("%013d", incident.unix_ms),
                                        "-gang-", incident.epoch, EndOf(incident.reason));
  RETURN_IF_ERROR(files_->WriteDurably(path, document));
  const std::vector<std::string> names = NamesOf(incident.job, incident.reason);
  const size_t most = incident.reason == Reason::kFailure ? kMostFailures : kMostAsked;
  for (size_t i = 0; i + most < names.size(); ++i) {
    const absl::Status removed = files_->RemoveAll(absl::StrCat(folder, "/", names[i]));
    if (!removed.ok()) log::Warning("an old incident stays", {{"error", removed.ToString()}});
  }
  return path;
}

absl::StatusOr<IncidentFiles::Kept> IncidentFiles::Newest(const std::string& job,
                                                          std::optional<Reason> reason) const {
  const std::vector<std::string> names =
      directory_.empty() ? std::vector<std::string>() : NamesOf(job, reason);
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat("no incident of job ", job, " is kept"));
  }
  Kept kept{.path = absl::StrCat(FolderOf(job), "/", names.back())};
  ASSIGN_OR_RETURN(kept.document, files_->Read(kept.path));
  return kept;
}

void IncidentFiles::Forget(const std::string& job) const {
  if (directory_.empty()) return;
  const absl::Status removed = files_->RemoveAll(FolderOf(job));
  if (!removed.ok()) log::Warning("incidents of a job stay", {{"error", removed.ToString()}});
}

}  // namespace coxswain::incidents
