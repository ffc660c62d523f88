#include "controller/cli/text/gauges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace coxswain::cli {
namespace {

// Means of `width` consecutive groups that cover `values`, group sizes differing by at most one.
std::vector<double> GroupMeans(std::span<const double> values, size_t width) {
  std::vector<double> means;
  for (size_t g = 0; g < width; ++g) {
    const size_t begin = g * values.size() / width;
    const size_t end = (g + 1) * values.size() / width;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace

std::string ProgressBar(double fraction, int width) {
  if (width < 3) return "";
  if (!(fraction > 0)) fraction = 0;
  const int inner = width - 2;
  const int filled = fraction >= 1 ? inner : static_cast<int>(fraction * inner);
  return "[" + std::string(filled, '#') + std::string(inner - filled, ' ') + "]";
}

std::string Sparkline(std::span<const double> values, int width) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (width < 1) return "";
  const std::vector<double> points = values.size() > static_cast<size_t>(width)
                                         ? GroupMeans(values, width)
                                         : std::vector<double>(values.begin(), values.end());
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double point : points) {
    if (!std::isfinite(point)) continue;
    low = std::min(low, point);
    high = std::max(high, point);
  }
  std::string text;
  for (const double point : points) {
    if (!std::isfinite(point)) {
      text += "!";
    } else {
      const double height = high > low ? (point - low) / (high - low) : 0.5;
      text += kBlocks[std::min(7, static_cast<int>(height * 8))];
    }
  }
  return text;
}

}  // namespace coxswain::cli
