// A curve as the page draws it: SVG paths in a box of 1000 x 100, and axis labels as text beside
// it.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_CURVE_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_CURVE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace coxswain::status_page {

using Series = std::vector<std::pair<int64_t, double>>;  // step, value; a value may be not finite

struct Curve {
  std::string name;  // key of the values in /jobs/ID.json, e.g. "loss"
  std::string title;
  Series line;
  Series dots = {};       // drawn over the line
  std::string line_name;  // of the legend
  std::string dots_name = {};
  bool from_zero = false;  // the axis begins at 0
};

// Equally spaced round numbers that enclose lo and hi: 3 to 7 of them.
std::vector<double> RoundTicks(double lo, double hi);
// The text has as many digits as tell neighbours `step` apart.
std::string TickText(double value, double step);

// Values for curve.html; `max_points` of the line are drawn.
nlohmann::json CurveFields(const Curve& curve, const std::string& job, size_t max_points);

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_CURVE_H_
