#include "controller/cli/pull_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/format.h"
#include "controller/cli/clean_stream.h"
#include "controller/cli/gauges.h"
#include "controller/cli/table.h"

namespace coxswain::cli {
namespace {

constexpr int kBarColumns = 24;

double Fraction(const hub::Progress& progress) {
  return progress.bytes_total == 0
             ? 1
             : static_cast<double>(progress.bytes) / static_cast<double>(progress.bytes_total);
}

// "50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left"
std::string Numbers(const hub::Progress& progress) {
  const double rate = progress.bytes_per_second;
  const int64_t left = progress.bytes_total - progress.bytes;
  std::string text = fmt::format("{}% {}/{}", static_cast<int>(100 * Fraction(progress)),
                                 FormatBytes(static_cast<uint64_t>(progress.bytes)),
                                 FormatBytes(static_cast<uint64_t>(progress.bytes_total)));
  if (progress.waits) return text + " waits for another process that downloads the rest";
  if (rate < 1) return text;
  text += fmt::format(" {}/s", FormatBytes(static_cast<uint64_t>(rate)));
  if (left > 0) {
    text += fmt::format(" {} left", FormatDuration(static_cast<double>(left) / rate));
  }
  return text;
}

}  // namespace

std::string PullLine(const std::string& name, const hub::Progress& progress, int columns) {
  const std::string numbers = Numbers(progress);
  const int room = columns - DisplayWidth(name) - DisplayWidth(numbers) - 2;
  const std::string bar = ProgressBar(Fraction(progress), std::min(room, kBarColumns));
  const std::string line = name + " " + (bar.empty() ? "" : bar + " ") + numbers;
  return line.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

void PullView::Show(const hub::Progress& progress, int64_t now_unix_ms) {
  if (mode_ == ProgressMode::kNone) return;
  if (mode_ == ProgressMode::kPlain) {
    if (plain_ms_ != 0 && now_unix_ms - plain_ms_ < kPlainMs) return;
    plain_ms_ = now_unix_ms;
    *terminal_.err << name_ << " " << Numbers(progress) << "\n" << std::flush;
    return;
  }
  // One column stays free: some terminals wrap when the last one is written.
  const std::string line = PullLine(name_, progress, terminal_.columns - 1);
  if (line == shown_) return;
  *terminal_.err << Draw::kLineStart << line << Draw::kClearRestOfLine << std::flush;
  shown_ = line;
}

void PullView::Close() {
  if (!shown_.empty()) *terminal_.err << "\n" << std::flush;
  shown_.clear();
}

}  // namespace coxswain::cli
