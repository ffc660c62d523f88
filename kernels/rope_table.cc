// The tables of cosines and sines, and of the scales of queries, built on the host for either
// library.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "kernels/rope.h"

namespace coxswain::kernels {
namespace {

// Source: transformers modeling_rope_utils, _compute_llama3_parameters; float32 like there.
float BandScaled(float frequency, const RopeFrequencies& f) {
  const float wavelength = static_cast<float>(2.0 * std::numbers::pi) / frequency;
  const double length = static_cast<double>(f.original_max_position);
  if (wavelength < static_cast<float>(length / f.high_freq_factor)) return frequency;
  const float scaled = frequency / static_cast<float>(f.factor);
  if (wavelength > static_cast<float>(length / f.low_freq_factor)) return scaled;
  const float smooth =
      (static_cast<float>(length) / wavelength - static_cast<float>(f.low_freq_factor)) /
      static_cast<float>(f.high_freq_factor - f.low_freq_factor);
  return (1.0f - smooth) * frequency / static_cast<float>(f.factor) + smooth * frequency;
}

// The dimension whose wave turns `rotations` times within the original length.
double DimensionOf(double rotations, const RopeFrequencies& f) {
  const double turns =
      static_cast<double>(f.original_max_position) / (rotations * 2.0 * std::numbers::pi);
  return static_cast<double>(f.rotated) * std::log(turns) / (2.0 * std::log(f.theta));
}

// How much of frequency i is divided, 0 to 1, by a ramp from the fast bound to the slow one.
// Source: transformers modeling_rope_utils, _compute_yarn_parameters.
struct YarnRamp {
  explicit YarnRamp(const RopeFrequencies& f) {
    low = DimensionOf(f.beta_fast, f);
    high = DimensionOf(f.beta_slow, f);
    if (f.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(f.rotated - 1));
    if (low == high) high += 0.001;
  }
  float operator()(int64_t i) const {
    const auto from = static_cast<float>(low);
    return std::clamp((static_cast<float>(i) - from) / static_cast<float>(high - low), 0.0f, 1.0f);
  }

  double low = 0, high = 0;
};

float YarnScaled(float power, float ramp, const RopeFrequencies& f) {
  const float kept = 1.0f - ramp;
  const float divided = 1.0f / (static_cast<float>(f.factor) * power);
  return divided * (1.0f - kept) + 1.0f / power * kept;
}

// Source: transformers modeling_rope_utils, _compute_longrope_parameters.
float FactorScaled(float power, double factor) {
  return 1.0f / (static_cast<float>(factor) * power);
}

float Scaled(float power, int64_t i, const RopeFrequencies& f) {
  switch (f.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      return 1.0f / power / static_cast<float>(f.factor);
    case RopeScaling::kBands:
      return BandScaled(1.0f / power, f);
    case RopeScaling::kYarn:
      return YarnScaled(power, YarnRamp(f)(i), f);
    case RopeScaling::kLongRope:
      return FactorScaled(power, f.factors[static_cast<size_t>(i)]);
  }
  return 1.0f / power;
}

}  // namespace

std::vector<float> RopeInverseFrequencies(const RopeFrequencies& frequencies) {
  const int64_t dim = frequencies.rotated;
  if (dim <= 0 || dim % 2 != 0) {
    throw std::invalid_argument("Rope: " + std::to_string(dim) +
                                " rotated elements, must be even and positive");
  }
  const int64_t factors = static_cast<int64_t>(frequencies.factors.size());
  if (frequencies.scaling == RopeScaling::kLongRope && factors != dim / 2) {
    throw std::invalid_argument("Rope: " + std::to_string(factors) + " factors for " +
                                std::to_string(dim / 2) + " frequencies");
  }
  std::vector<float> inverse(static_cast<size_t>(dim / 2));
  for (int64_t i = 0; i < dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    const float power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(frequencies.theta)), exponent));
    inverse[static_cast<size_t>(i)] = Scaled(power, i, frequencies);
  }
  return inverse;
}

RopeTable BuildRopeTable(const RopeFrequencies& frequencies, int64_t positions) {
  const std::vector<float> inverse = RopeInverseFrequencies(frequencies);
  const bool scaled =
      frequencies.scaling == RopeScaling::kYarn || frequencies.scaling == RopeScaling::kLongRope;
  const float scale = scaled ? static_cast<float>(frequencies.attention_factor) : 1.0f;
  RopeTable table{.positions = positions, .cos = {}, .sin = {}};
  table.cos.reserve(static_cast<size_t>(positions) * inverse.size());
  table.sin.reserve(static_cast<size_t>(positions) * inverse.size());
  for (int64_t p = 0; p < positions; ++p) {
    for (const float frequency : inverse) {
      const double angle = static_cast<float>(p) * frequency;  // rounded to float32 first
      table.cos.push_back(static_cast<float>(std::cos(angle)) * scale);
      table.sin.push_back(static_cast<float>(std::sin(angle)) * scale);
    }
  }
  return table;
}

std::vector<float> BuildQueryScale(double beta, int64_t original_max_position, int64_t positions) {
  if (original_max_position < 1) {
    throw std::invalid_argument("Rope: original length " + std::to_string(original_max_position) +
                                ", must be at least 1");
  }
  std::vector<float> scale;
  scale.reserve(static_cast<size_t>(positions));
  for (int64_t p = 0; p < positions; ++p) {
    const int64_t lengths = p / original_max_position;
    scale.push_back(static_cast<float>(1.0 + beta * std::log1p(static_cast<double>(lengths))));
  }
  return scale;
}

}  // namespace coxswain::kernels
