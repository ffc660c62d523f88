// The tables of cosines and sines, built on the host for either library.
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "kernels/rope.h"

namespace coxswain::kernels {
namespace {

// Source: transformers modeling_rope_utils, _compute_llama3_parameters; float32 like there.
float Llama3Scaled(float frequency, const RopeFrequencies& f) {
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

}  // namespace

std::vector<float> RopeInverseFrequencies(const RopeFrequencies& frequencies) {
  const int64_t dim = frequencies.head_dim;
  if (dim <= 0 || dim % 2 != 0) {
    throw std::invalid_argument("Rope: head_dim " + std::to_string(dim) +
                                " must be even and positive");
  }
  std::vector<float> inverse(static_cast<size_t>(dim / 2));
  for (int64_t i = 0; i < dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    const float power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(frequencies.theta)), exponent));
    const float frequency = 1.0f / power;
    inverse[static_cast<size_t>(i)] =
        frequencies.llama3 ? Llama3Scaled(frequency, frequencies) : frequency;
  }
  return inverse;
}

RopeTable BuildRopeTable(const RopeFrequencies& frequencies, int64_t positions) {
  const std::vector<float> inverse = RopeInverseFrequencies(frequencies);
  RopeTable table{.positions = positions, .cos = {}, .sin = {}};
  table.cos.reserve(static_cast<size_t>(positions) * inverse.size());
  table.sin.reserve(static_cast<size_t>(positions) * inverse.size());
  for (int64_t p = 0; p < positions; ++p) {
    for (const float frequency : inverse) {
      const double angle = static_cast<float>(p) * frequency;  // rounded to float32 first
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

}  // namespace coxswain::kernels
