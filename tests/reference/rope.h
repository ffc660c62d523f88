// Rotation of one head vector and its inverse, either layout.
#ifndef COXSWAIN_TESTS_REFERENCE_ROPE_H_
#define COXSWAIN_TESTS_REFERENCE_ROPE_H_

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace coxswain::reference {

struct Llama3Scaling {
  double factor, low_freq_factor, high_freq_factor, original_max_position;
};

// Frequencies [dim/2] of the formula theta^(-2i/dim), then Llama-3's three bands if `scaling`.
// Source: transformers modeling_rope_utils.
inline std::vector<double> RopeFrequencies(int64_t dim, double theta,
                                           const Llama3Scaling* scaling) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    double f = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    if (scaling != nullptr) {
      const double wavelength = 2 * std::numbers::pi / f;
      const double ratio = scaling->original_max_position / wavelength;
      const double smooth = (ratio - scaling->low_freq_factor) /
                            (scaling->high_freq_factor - scaling->low_freq_factor);
      if (ratio < scaling->low_freq_factor) {
        f /= scaling->factor;
      } else if (ratio <= scaling->high_freq_factor) {
        f = (1 - smooth) * f / scaling->factor + smooth * f;
      }
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

// x [dim] of one head at angle[i] = position frequency[i], in place; sign -1 turns back. Pair i is
// (x[i], x[i + dim/2]), interleaved (x[2i], x[2i + 1]).
template <typename T>
void RotateHead(int64_t dim, const T* cos, const T* sin, T sign, T* x, bool interleaved = false) {
  for (int64_t i = 0; i < dim / 2; ++i) {
    T& first = x[interleaved ? 2 * i : i];
    T& second = x[interleaved ? 2 * i + 1 : i + dim / 2];
    const T a = first, b = second;
    first = a * cos[i] - sign * b * sin[i];
    second = b * cos[i] + sign * a * sin[i];
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_ROPE_H_
