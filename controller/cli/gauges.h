// A progress bar and a sparkline.
#ifndef COXSWAIN_CONTROLLER_CLI_GAUGES_H_
#define COXSWAIN_CONTROLLER_CLI_GAUGES_H_

#include <span>
#include <string>

namespace coxswain::cli {

// `width` columns in all: "[####    ]". The fraction is clamped to 0..1, NaN counts as 0; below
// three columns there is no room for a bar and the text is empty. Full only at 1.
std::string ProgressBar(double fraction, int width);

// `values` as block characters, lowest to highest over the finite ones, at most `width` columns:
// more values are averaged in equal groups. Non-finite values show as "!", equal ones at middle
// height.
std::string Sparkline(std::span<const double> values, int width);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_GAUGES_H_
