// The live view of one job. On a TTY a line is redrawn below the job's events; elsewhere plain
// lines.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_PROGRESS_VIEW_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_PROGRESS_VIEW_H_

#include <chrono>
#include <string>
#include <vector>

#include "controller/cli/text/output.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/job_event.pb.h"

namespace coxswain::cli {

enum class ProgressMode { kBar, kPlain, kNone };

// "auto" is a bar when stderr is a TTY, else plain lines. The other words are "plain" and "none".
ProgressMode ParseProgressMode(const std::string& word, bool err_tty);

// "tiny-1 RUNNING [###   ] 50% 5/10 loss 3.1234 <sparkline> eval 3.2000 1,234 tok/s ETA 12s", at
// most `columns` columns. Sparkline and bar shrink first.
std::string ProgressLine(const v1::Job& job, const std::vector<double>& losses, int columns);

// "step 5/10  loss 3.1234  grad norm 1.0321  lr 1.00e-04  1,234 tok/s" for StepDone, else type and
// message.
std::string EventLine(const v1::JobEvent& event, int64_t total_steps);

// EventLine with a line feed. For a sample, the texts of prompt and answer follow.
std::string EventText(const v1::JobEvent& event, int64_t total_steps);

class ProgressView {
 public:
  ProgressView(const Terminal& terminal, ProgressMode mode) : terminal_(terminal), mode_(mode) {}
  // Plain mode prints a step at most every `kStepLineMs` and other events at once. Bar mode prints
  // all events above the bar, except steps and states, which the bar shows.
  static constexpr int64_t kStepLineMs = 1000;
  static constexpr std::chrono::seconds kFetchingLines{5};  // between plain lines of a download
  void Event(const v1::JobEvent& event, int64_t now_unix_ms);
  void Job(const v1::Job& job);  // redraws the bar
  void Note(const std::string& line);
  void Close();  // ends the bar's line

 private:
  void Above(const std::string& lines);  // whole lines
  void ShowFetching(const v1::Fetching& fetching);

  const Terminal& terminal_;
  ProgressMode mode_;
  std::vector<double> losses_;
  std::string shown_;
  int64_t total_steps_ = 0;
  int64_t last_step_line_ms_ = 0;
  std::chrono::steady_clock::time_point next_fetching_line_ = {};
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_PROGRESS_VIEW_H_
