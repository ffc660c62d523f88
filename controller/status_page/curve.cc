#include "controller/status_page/curve.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/format.h"

namespace coxswain::status_page {
namespace {

using nlohmann::json;

constexpr double kWidth = 1000;
constexpr double kHeight = 100;

struct Box {
  int64_t first_step = 0, last_step = 0;
  double lowest = 0, highest = 0;
  bool empty = true;

  void Include(const Series& series) {
    for (const auto& [step, value] : series) {
      if (!std::isfinite(value)) continue;
      first_step = empty ? step : std::min(first_step, step);
      last_step = empty ? step : std::max(last_step, step);
      lowest = empty ? value : std::min(lowest, value);
      highest = empty ? value : std::max(highest, value);
      empty = false;
    }
  }
  double X(int64_t step) const {
    if (first_step == last_step) return kWidth / 2;
    return kWidth * static_cast<double>(step - first_step) /
           static_cast<double>(last_step - first_step);
  }
  double Y(double value) const { return kHeight - kHeight * (value - lowest) / (highest - lowest); }
};

// A value that is not finite leaves a gap. One point alone is a dot.
std::string LinePath(const Box& box, const Series& series, size_t max_points) {
  const size_t stride = std::max<size_t>(1, (series.size() + max_points - 1) / max_points);
  std::string path;
  bool drawing = false;
  for (size_t i = 0; i < series.size(); ++i) {
    const auto& [step, value] = series[i];
    const bool shown = i % stride == 0 || i + 1 == series.size();
    if (std::isfinite(value) && !shown) continue;
    if (std::isfinite(value)) {
      path += fmt::format("{}{:.1f} {:.2f}", drawing ? "L" : "M", box.X(step), box.Y(value));
    }
    drawing = std::isfinite(value);
  }
  return path.find('L') == std::string::npos ? path + (path.empty() ? "" : "h0") : path;
}

// Lines of no length: their round ends stay round however the box is stretched.
std::string DotsPath(const Box& box, const Series& series) {
  std::string path;
  for (const auto& [step, value] : series) {
    if (std::isfinite(value)) path += fmt::format("M{:.1f} {:.2f}h0", box.X(step), box.Y(value));
  }
  return path;
}

const std::pair<int64_t, double>* LastFinite(const Series& series) {
  for (size_t i = series.size(); i-- > 0;) {
    if (std::isfinite(series[i].second)) return &series[i];
  }
  return nullptr;
}

// What the picture says, for those who do not see it.
std::string Spoken(const Curve& curve, const Box& box, double tick) {
  if (box.empty) return curve.title + ": no step yet";
  const auto first = std::find_if(curve.line.begin(), curve.line.end(),
                                  [](const auto& p) { return std::isfinite(p.second); });
  std::string text = curve.title;
  if (first != curve.line.end()) {
    const auto* last = LastFinite(curve.line);
    text += fmt::format(": {} {} at step {}, {} at step {}", curve.line_name,
                        TickText(first->second, tick / 100), first->first,
                        TickText(last->second, tick / 100), last->first);
  }
  if (const auto* last = LastFinite(curve.dots)) {
    text += fmt::format("; {} {} at step {}", curve.dots_name, TickText(last->second, tick / 100),
                        last->first);
  }
  return text;
}

}  // namespace

std::vector<double> RoundTicks(double lo, double hi) {
  if (!(hi > lo)) {
    const double half = std::max(std::abs(lo) * 0.05, 1e-12);
    lo -= half;
    hi += half;
  }
  const double rough = (hi - lo) / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double round : {1.0, 2.0, 5.0}) {
    if (rough <= round * power) {
      step = round * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(lo / step + 1e-9);
  for (double i = first; ticks.size() < 2 || ticks.back() < hi - 1e-9 * step; ++i) {
    ticks.push_back(i * step);
  }
  return ticks;
}

std::string TickText(double value, double step) {
  if (value == 0) return "0";
  if (step < 1e-5) return fmt::format("{:.3g}", value);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  if (digits == 0) return FormatCount(std::llround(value));
  return fmt::format("{:.{}f}", value, digits);
}

json CurveFields(const Curve& curve, const std::string& job, size_t max_points) {
  Box box;
  box.Include(curve.line);
  box.Include(curve.dots);
  json fields = {{"NAME", curve.name}, {"TITLE", curve.title}, {"JOB", job}};
  if (box.empty) {
    fields["SPOKEN"] = Spoken(curve, box, 1);
    fields["NO_POINTS"] = true;
    return fields;
  }
  const std::vector<double> ticks =
      RoundTicks(curve.from_zero ? std::min(0.0, box.lowest) : box.lowest, box.highest);
  box.lowest = ticks.front();
  box.highest = ticks.back();
  const double tick = ticks[1] - ticks[0];
  fields["SPOKEN"] = Spoken(curve, box, tick);
  json& plot = fields["PLOT"];
  plot = {{"FROM", std::to_string(box.first_step)}, {"TO", std::to_string(box.last_step)}};
  for (size_t i = ticks.size(); i-- > 0;) {
    plot["TICKS"].push_back({{"TEXT", TickText(ticks[i], tick)}});
    plot["GRID"].push_back({{"Y", fmt::format("{:.2f}", box.Y(ticks[i]))}});
  }
  plot["LINE"] = LinePath(box, curve.line, max_points);
  plot["LINE_NAME"] = curve.line_name;
  if (!curve.dots.empty()) {
    plot["DOTS"] = {{"D", DotsPath(box, curve.dots)}, {"DOTS_NAME", curve.dots_name}};
  }
  return fields;
}

}  // namespace coxswain::status_page
