// Numbers of records that are kept as float32.
#ifndef COXSWAIN_CONTROLLER_DATA_READERS_FINITE_FLOAT_H_
#define COXSWAIN_CONTROLLER_DATA_READERS_FINITE_FLOAT_H_

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"

namespace coxswain::data {

// Nothing where it is not finite in float32.
inline std::optional<float> FiniteFloat(double value) {
  const auto rounded = static_cast<float>(value);
  return std::isfinite(rounded) ? std::optional(rounded) : std::nullopt;
}

// Of a number as text, as CSV has it.
inline std::optional<float> FiniteFloat(const std::string& text) {
  double value = 0;
  return absl::SimpleAtod(text, &value) ? FiniteFloat(value) : std::nullopt;
}

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_READERS_FINITE_FLOAT_H_
