#include "controller/cli/text/progress_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/format.h"
#include "common/outside_text.h"
#include "controller/cli/text/clean_stream.h"
#include "controller/cli/text/gauges.h"
#include "controller/cli/text/job_text.h"
#include "controller/cli/text/log_text.h"
#include "controller/cli/text/preference_text.h"
#include "controller/cli/text/status_line.h"
#include "controller/cli/text/step_text.h"
#include "controller/cli/text/table.h"

namespace coxswain::cli {
namespace {

std::string CutTo(const std::string& text, int columns) {
  std::string cut;
  int used = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && ++used > columns) break;
    cut += c;
  }
  return cut;
}

// What the bar shows itself, and pieces of answers that come whole later.
bool IsOfTheBar(const v1::JobEvent& event) {
  return event.type() == "StepDone" || event.type() == "StateChanged" ||
         event.type() == "AnswerWritten";
}

}  // namespace

ProgressMode ParseProgressMode(const std::string& word, bool err_tty) {
  if (word == "none") return ProgressMode::kNone;
  if (word == "plain") return ProgressMode::kPlain;
  return err_tty ? ProgressMode::kBar : ProgressMode::kPlain;
}

std::string ProgressLine(const v1::Job& job, const std::vector<double>& losses, int columns) {
  const v1::Progress& p = job.progress();
  if (p.has_fetching()) {
    return DownloadLine(OneLine(p.fetching().source()), ProgressOf(p.fetching()), columns);
  }
  const std::string head = fmt::format("{} {} ", OneLine(job.id()), StateName(job.state()));
  std::string count = fmt::format(" {:.0f}%", 100 * ProgressFraction(job));
  if (p.total_steps() > 0) count += fmt::format(" {}/{}", p.step(), p.total_steps());
  if (p.step() > 0) count += fmt::format(" loss {:.4f}", p.loss());
  std::string tail;
  if (p.has_preference()) tail += " " + MarginText(p.preference());
  if (p.has_eval()) tail += fmt::format(" eval {:.4f}", p.eval_loss());
  if (p.tokens_per_second() > 0)
    tail += fmt::format(" {} tok/s", FormatCount(static_cast<int64_t>(p.tokens_per_second())));
  if (job.state() == v1::JOB_STATE_RUNNING && p.eta_seconds() > 0)
    tail += fmt::format(" ETA {}", FormatDuration(p.eta_seconds()));
  int room = columns - DisplayWidth(head) - DisplayWidth(count) - DisplayWidth(tail);
  const int bar_width = losses.empty() ? 24 : std::clamp(room - 17, 10, 24);
  const std::string bar = ProgressBar(ProgressFraction(job), std::min(room, bar_width));
  room -= DisplayWidth(bar) + 1;
  const std::string spark = Sparkline(losses, std::clamp(room, 0, 16));
  return CutTo(head + bar + count + (spark.empty() ? "" : " " + spark) + tail, columns);
}

std::string EventLine(const v1::JobEvent& event, int64_t total_steps) {
  if (event.type() != "StepDone") {
    return OneLine(event.message().empty() ? event.type()
                                           : fmt::format("{}: {}", event.type(), event.message()));
  }
  const v1::StepDone& step = event.step_done();
  std::string line = fmt::format("step {}", step.step() + 1);
  if (total_steps > 0) line += fmt::format("/{}", total_steps);
  line += fmt::format("  loss {:.4f}  grad norm {:.4f}  lr {:.2e}", FiniteOrZero(step.loss()),
                      FiniteOrZero(step.grad_norm()), FiniteOrZero(step.learning_rate()));
  if (step.has_preference()) line += "  " + MarginText(step.preference());
  if (step.has_experts()) {
    line += fmt::format("  experts {:.2f}x", FiniteOrZero(step.experts().load_ratio()));
  }
  const double speed = FiniteOrZero(step.tokens_per_second());
  return speed > 0 ? fmt::format("{}  {} tok/s", line, FormatCount(static_cast<int64_t>(speed)))
                   : line;
}

std::string EventText(const v1::JobEvent& event, int64_t total_steps) {
  std::string text = EventLine(event, total_steps) + "\n";
  if (!event.has_prompt_answered()) return text;
  return text + AnswerText("prompt", event.prompt_answered().text()) +
         AnswerText("answer", event.prompt_answered().answer());
}

void ProgressView::Event(const v1::JobEvent& event, int64_t now_unix_ms) {
  const bool step = event.type() == "StepDone";
  if (step) {
    // A replayed step overwrites what it replays.
    const auto index = static_cast<size_t>(std::max<int64_t>(0, event.step_done().step()));
    losses_.resize(std::min(losses_.size(), index));
    losses_.push_back(FiniteOrZero(event.step_done().loss()));
  }
  if (mode_ == ProgressMode::kBar && !IsOfTheBar(event)) Above(EventText(event, total_steps_));
  if (mode_ != ProgressMode::kPlain) return;
  if (step && total_steps_ != static_cast<int64_t>(losses_.size())) {
    if (now_unix_ms - last_step_line_ms_ < kStepLineMs) return;
    last_step_line_ms_ = now_unix_ms;
  }
  *terminal_.err << EventText(event, total_steps_) << std::flush;
}

void ProgressView::Above(const std::string& lines) {
  if (!shown_.empty()) *terminal_.err << Draw::kLineStart << Draw::kClearRestOfLine;
  *terminal_.err << lines << shown_ << std::flush;
}

void ProgressView::Job(const v1::Job& job) {
  total_steps_ = job.progress().total_steps();
  if (mode_ == ProgressMode::kPlain && job.progress().has_fetching()) {
    ShowFetching(job.progress().fetching());
  }
  if (mode_ != ProgressMode::kBar) return;
  // One column stays free: some terminals wrap when the last one is written.
  const std::string line = ProgressLine(job, losses_, terminal_.columns - 1);
  if (line == shown_) return;
  *terminal_.err << Draw::kLineStart << line << Draw::kClearRestOfLine << std::flush;
  shown_ = line;
}

void ProgressView::ShowFetching(const v1::Fetching& fetching) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_fetching_line_) return;
  next_fetching_line_ = now + kFetchingLines;
  *terminal_.err << DownloadText(OneLine(fetching.source()), ProgressOf(fetching)) << "\n"
                 << std::flush;
}

void ProgressView::Note(const std::string& line) {
  if (mode_ == ProgressMode::kNone) return;
  Close();
  *terminal_.err << OneLine(line) << "\n" << std::flush;
}

void ProgressView::Close() {
  if (!shown_.empty()) *terminal_.err << "\n" << std::flush;
  shown_.clear();
}

}  // namespace coxswain::cli
