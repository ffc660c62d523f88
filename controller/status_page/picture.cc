#include "controller/status_page/picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "common/format.h"
#include "common/outside_text.h"
#include "controller/status_page/curve.h"

namespace coxswain::status_page {
namespace {

// Pixels.
constexpr double kPictureWidth = 860;
constexpr double kLeft = 80, kRight = 20;
constexpr double kPanelHeight = 220, kPanelTop = 34, kPanelBottom = 26;
constexpr double kLegendRow = 18, kLegendTop = 12;
constexpr size_t kLabelBytes = 90;

// Eight colours that people with any colour vision tell apart, black left out.
// Source: Okabe and Ito, "Color Universal Design", 2008; yellow is darkened for white paper.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#8c7a00"};
// Jobs beyond the colours have broken lines.
constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};

std::string Stroke(size_t job) {
  const char* dash = kDashes[job / kColours.size() % kDashes.size()];
  return fmt::format("stroke=\"{}\"{}", kColours[job % kColours.size()],
                     *dash == '\0' ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escaped(text));
}

struct Panel {
  const char* title;
  double StepPoint::*value;
  bool with_evals;
  bool from_zero;
};
constexpr std::array<Panel, 4> kPanels = {
    {{"Loss (line), held-back loss (dots)", &StepPoint::loss, true, false},
     {"Learning rate", &StepPoint::learning_rate, false, true},
     {"Gradient norm, before clipping", &StepPoint::grad_norm, false, true},
     {"Tokens per second", &StepPoint::tokens_per_second, false, true}}};

// The lines and dots of one panel, a pair for each job, and the box that holds them.
class Plot {
 public:
  Plot(const Panel& panel, const std::vector<PlottedJob>& jobs, double top)
      : panel_(panel), top_(top + kPanelTop) {
    for (const PlottedJob& job : jobs) {
      Series& line = lines_.emplace_back();
      Series& dots = dots_.emplace_back();
      for (const StepPoint& point : job.history->steps()) {
        line.emplace_back(point.step, point.*panel.value);
      }
      if (!panel.with_evals) continue;
      for (const EvalPoint& point : job.history->evals()) dots.emplace_back(point.step, point.loss);
    }
    for (const std::vector<Series>* all : {&lines_, &dots_}) {
      for (const Series& series : *all) Include(series);
    }
  }

  std::string Svg() {
    std::string out = Text(kLeft, top_ - 12, "start", panel_.title, " font-weight=\"bold\"");
    if (empty_) return out + Text(kLeft, top_ + 20, "start", "no step yet");
    const std::vector<double> ticks =
        RoundTicks(panel_.from_zero ? std::min(0.0, lowest_) : lowest_, highest_);
    lowest_ = ticks.front();
    highest_ = ticks.back();
    out += Axes(ticks);
    for (size_t job = 0; job < lines_.size(); ++job) {
      out += fmt::format("<path fill=\"none\" stroke-width=\"1.5\" {} d=\"{}\"/>\n", Stroke(job),
                         Path(lines_[job]));
      for (const auto& [step, value] : dots_[job]) {
        if (!std::isfinite(value)) continue;
        out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"/>\n", X(step),
                           Y(value), kColours[job % kColours.size()]);
      }
    }
    return out;
  }

 private:
  void Include(const Series& series) {
    for (const auto& [step, value] : series) {
      if (!std::isfinite(value)) continue;
      first_ = empty_ ? step : std::min(first_, step);
      last_ = empty_ ? step : std::max(last_, step);
      lowest_ = empty_ ? value : std::min(lowest_, value);
      highest_ = empty_ ? value : std::max(highest_, value);
      empty_ = false;
    }
  }
  double X(int64_t step) const {
    const double width = kPictureWidth - kLeft - kRight;
    if (first_ == last_) return kLeft + width / 2;
    return kLeft + width * static_cast<double>(step - first_) / static_cast<double>(last_ - first_);
  }
  double Bottom() const { return top_ + kPanelHeight - kPanelTop - kPanelBottom; }
  double Y(double value) const {
    return Bottom() - (Bottom() - top_) * (value - lowest_) / (highest_ - lowest_);
  }
  std::string Axes(const std::vector<double>& ticks) const {
    std::string out;
    for (const double tick : ticks) {
      out += fmt::format("<path stroke=\"#ddd\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", kLeft, Y(tick),
                         kPictureWidth - kRight);
      out += Text(kLeft - 6, Y(tick) + 4, "end", TickText(tick, ticks[1] - ticks[0]));
    }
    out += Text(kLeft, Bottom() + 16, "start", fmt::format("step {}", FormatCount(first_)));
    return out + Text(kPictureWidth - kRight, Bottom() + 16, "end", FormatCount(last_));
  }
  // A value that is not finite leaves a gap.
  std::string Path(const Series& series) const {
    std::string path;
    bool drawing = false;
    for (const auto& [step, value] : series) {
      if (std::isfinite(value)) {
        path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", X(step), Y(value));
      }
      drawing = std::isfinite(value);
    }
    return path;
  }

  const Panel& panel_;
  const double top_;  // of the box
  std::vector<Series> lines_, dots_;
  int64_t first_ = 0, last_ = 0;
  double lowest_ = 0, highest_ = 0;
  bool empty_ = true;
};

std::string Legend(const std::vector<PlottedJob>& jobs) {
  std::string out;
  for (size_t job = 0; job < jobs.size(); ++job) {
    const double y = kLegendTop + kLegendRow * (static_cast<double>(job) + 0.5);
    out += fmt::format("<path stroke-width=\"2\" {} d=\"M{:.1f} {:.1f}h30\"/>\n", Stroke(job),
                       kLeft, y);
    const std::string label = OneLine(jobs[job].label);
    out +=
        Text(kLeft + 38, y + 4, "start",
             label.size() > kLabelBytes ? CleanText(label.substr(0, kLabelBytes)) + "..." : label);
  }
  return out;
}

}  // namespace

std::string PictureSvg(const std::vector<PlottedJob>& jobs) {
  const double legend = kLegendTop + kLegendRow * static_cast<double>(jobs.size());
  const double height = legend + kPanelHeight * static_cast<double>(kPanels.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 "
      "0 "
      "{0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"white\"/>\n",
      kPictureWidth, height);
  out += Legend(jobs);
  for (size_t i = 0; i < kPanels.size(); ++i) {
    out += Plot(kPanels[i], jobs, legend + kPanelHeight * static_cast<double>(i)).Svg();
  }
  return out + "</svg>\n";
}

}  // namespace coxswain::status_page
