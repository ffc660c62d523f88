// A progress bar and a sparkline.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_GAUGES_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_GAUGES_H_

#include <span>
#include <string>

namespace coxswain::cli {

// "[####    ]" with `width` columns in all. The fraction is clamped to 0..1, and NaN counts as 0.
// The bar is full only at 1. Below three columns the text is empty.
std::string ProgressBar(double fraction, int width);

// `values` as block characters of at most `width` columns. Heights span the lowest to the highest
// finite value. More values than columns are averaged in equal groups. A non-finite value shows as
// "!". When all values are equal they have middle height.
std::string Sparkline(std::span<const double> values, int width);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_GAUGES_H_
