// What stays of a job when its controller ends with `cox train`: in checkpoint.output_dir, for
// `cox events DIR` and `cox describe DIR`.
#ifndef COXSWAIN_CONTROLLER_CLI_KEPT_HISTORY_H_
#define COXSWAIN_CONTROLLER_CLI_KEPT_HISTORY_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::cli {

// Files in OUTPUT_DIR/history/JOB: events.jsonl, each event as protobuf's JSON in a line, and
// job.json, the job. The controller neither reads nor removes them.
class HistoryKeeper {
 public:
  HistoryKeeper(const std::string& output_dir, const std::string& job);

  // Each event in order, once.
  void Event(const v1::JobEvent& event);
  // The job as it stands; replaces what was kept, whole or not at all.
  void Job(const v1::Job& job);
  int64_t last_event() const { return last_event_; }  // id of the newest; 0: none

  // The first thing that could not be written; after it nothing is.
  const absl::Status& status() const { return status_; }
  const std::string& directory() const { return directory_; }

 private:
  void Write(const std::string& path, bool written);  // notes a failure

  const std::string directory_;
  std::ofstream events_;
  int64_t last_event_ = 0;
  absl::Status status_;
};

struct KeptHistory {
  std::string directory;  // of this job
  v1::Job job;
  std::vector<v1::JobEvent> events;
  std::vector<std::string> others;  // directories of other jobs that were kept beside it
};

// Whether what a user typed in the place of a job is a folder: it has a slash, is . or .., or holds
// a kept history.
bool NamesFolder(const std::string& typed);

// Of the newest job in `directory`: an output_dir, or the folder of one job in it. NotFound names
// what was looked for. An event that was cut when its writer died is left out.
absl::StatusOr<KeptHistory> ReadHistory(const std::string& directory);

// Which job this is, and where the others lie; a line each.
std::string KeptLines(const KeptHistory& history);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_KEPT_HISTORY_H_
