// Incidents of jobs as files: DIRECTORY/JOB/TIME-gang-EPOCH-REASON.json, the newest of each job.
#ifndef COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_FILES_H_
#define COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_FILES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/incidents/incident.h"
#include "controller/runtime/files.h"

namespace coxswain::incidents {

// Most incidents that are kept of one job.
inline constexpr size_t kMostFailures = 8, kMostAsked = 4;

// Any thread may call it. Calls take time.
class IncidentFiles {
 public:
  // `directory` is absolute; empty: nothing is kept.
  IncidentFiles(Files* files, std::string directory)
      : files_(files), directory_(std::move(directory)) {}

  // Writes `document` and removes the oldest incidents of its reason beyond the limit. Returns the
  // path; empty when nothing is kept.
  absl::StatusOr<std::string> Keep(const Incident& incident, const std::string& document) const;

  struct Kept {
    std::string path = {};
    std::string document = {};
  };
  // The newest incident of a job, of this reason or of any. NotFound: there is none.
  absl::StatusOr<Kept> Newest(const std::string& job,
                              std::optional<Reason> reason = std::nullopt) const;
  void Forget(const std::string& job) const;

 private:
  std::vector<std::string> NamesOf(const std::string& job, std::optional<Reason> reason) const;
  std::string FolderOf(const std::string& job) const { return directory_ + "/" + job; }

  Files* files_;
  std::string directory_;
};

}  // namespace coxswain::incidents

#endif  // COXSWAIN_CONTROLLER_INCIDENTS_INCIDENT_FILES_H_
