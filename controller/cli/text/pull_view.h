// The live view of a download from the Hub.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_PULL_VIEW_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_PULL_VIEW_H_

#include <cstdint>
#include <string>

#include "common/hub/download_options.h"
#include "controller/cli/text/output.h"
#include "controller/cli/text/progress_view.h"

namespace coxswain::cli {

class PullView {
 public:
  // `terminal` must outlive the view.
  PullView(const Terminal& terminal, ProgressMode mode, std::string name)
      : terminal_(terminal), mode_(mode), name_(std::move(name)) {}

  // Plain mode prints a line at most every `kPlainMs`.
  static constexpr int64_t kPlainMs = 5000;
  void Show(const hub::Progress& progress, int64_t now_unix_ms);
  void Close();  // ends the bar's line

 private:
  const Terminal& terminal_;
  const ProgressMode mode_;
  const std::string name_;
  std::string shown_;
  int64_t plain_ms_ = 0;  // time of the newest plain line
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_PULL_VIEW_H_
