#include "controller/cli/text/pull_view.h"

#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/status_line.h"

namespace coxswain::cli {

void PullView::Show(const hub::Progress& progress, int64_t now_unix_ms) {
  if (mode_ == ProgressMode::kNone) return;
  if (mode_ == ProgressMode::kPlain) {
    if (plain_ms_ != 0 && now_unix_ms - plain_ms_ < kPlainMs) return;
    plain_ms_ = now_unix_ms;
    *terminal_.err << DownloadText(name_, progress) << "\n" << std::flush;
    return;
  }
  // One column stays free: some terminals wrap when the last one is written.
  const std::string line = DownloadLine(name_, progress, terminal_.columns - 1);
  if (line == shown_) return;
  *terminal_.err << Draw::kLineStart << line << Draw::kClearRestOfLine << std::flush;
  shown_ = line;
}

void PullView::Close() {
  if (!shown_.empty()) *terminal_.err << "\n" << std::flush;
  shown_.clear();
}

}  // namespace coxswain::cli
