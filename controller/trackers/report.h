// The tracker files of one job as a function of its events: the same events give the same bytes.
//
// So nothing is kept beside the files. A controller that starts writes them again from the first
// event; what stood there stays as it was, and readers do not notice. Whatever could not be
// written is written later.
//
// A step that is trained again takes back every point from it on:
// - lines of JSON and the run of Weights & Biases are cut there and go on, so each point stands
//   once;
// - an event file, which TensorBoard reads while it grows, gets an entry that takes them back.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_REPORT_H_
#define COXSWAIN_CONTROLLER_TRACKERS_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "controller/runtime/files.h"
#include "controller/store/store.h"
#include "controller/trackers/file_tail.h"
#include "controller/trackers/point.h"
#include "controller/trackers/run_file.h"

namespace coxswain::trackers {

struct ReportArgs {
  Run run;
  std::string config_json;                 // the effective job
  std::string directory;                   // absolute
  std::vector<config::Tracker> report_to;  // each once
  int64_t every = 1;                       // steps between points; evaluations all are points
};

// One thread at a time. The files, below `directory`:
//   jsonl/<run>.jsonl
//   tensorboard/<run>/events.out.tfevents.<seconds of created>.coxswain
//   wandb/offline-run-<created, UTC>-<run>/run-<run>.wandb
class Report {
 public:
  explicit Report(ReportArgs args);

  // In the order of their ids.
  void Add(const v1::JobEvent& event);
  absl::Status Write(Files* files, bool whole);  // as FileTail::Write, of every file

  const ReportArgs& args() const { return args_; }
  int64_t cursor() const { return cursor_; }  // id of the newest event added
  bool ended() const { return ended_; }       // the job has

 private:
  struct Mark {  // where a point stands
    Place place;
    int64_t lines_end = 0, run_end = 0;  // of the files before it
    RunRecords records = {};             // likewise
  };

  void TakeBackFrom(Place place, int64_t unix_ms);
  void AddPoint(const Point& point);
  void End(bool succeeded, int64_t unix_ms);

  const ReportArgs args_;
  std::optional<FileTail> lines_, events_, run_;
  RunRecords records_;  // of run_
  std::vector<Mark> marks_;
  std::map<std::string_view, double> last_;  // value of each name
  int64_t cursor_ = 0;
  bool ended_ = false;
};

// Brings the files up to what `history` has. A report whose file somebody cut is begun anew.
absl::Status Follow(store::History* history, Files* files, std::optional<Report>* report);

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_REPORT_H_
