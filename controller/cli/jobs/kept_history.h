// Keeps a job's history in checkpoint.output_dir after `cox train`, whose controller ends with it.
// `cox events DIR` and `cox describe DIR` read it.
#ifndef COXSWAIN_CONTROLLER_CLI_JOBS_KEPT_HISTORY_H_
#define COXSWAIN_CONTROLLER_CLI_JOBS_KEPT_HISTORY_H_

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

  // Call it once for each event, in order.
  void Event(const v1::JobEvent& event);
  // Replaces the kept job by its present state, atomically.
  void Job(const v1::Job& job);
  int64_t last_event() const { return last_event_; }  // id of the newest event; 0: none

  // The first failed write. Nothing is written after it.
  const absl::Status& status() const { return status_; }
  const std::string& directory() const { return directory_; }

 private:
  void Write(const std::string& path, bool written);  // sets status_ on a failure

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

// True when the user typed a folder in place of a job: the text has a slash, is . or .., or names a
// folder with a kept history.
bool NamesFolder(const std::string& typed);

// The history of the newest job in `directory`, which is an output_dir or the folder of one job in
// it. NotFound names the missing file. An event that was cut off when its writer died is left out.
absl::StatusOr<KeptHistory> ReadHistory(const std::string& directory);

// One line for this job, and one for the folder of each other job.
std::string KeptLines(const KeptHistory& history);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_JOBS_KEPT_HISTORY_H_
