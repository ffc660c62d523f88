// Rows of heads: rotation, and those of latent attention, in double.
#ifndef COXSWAIN_TESTS_REFERENCE_HEADS_H_
#define COXSWAIN_TESTS_REFERENCE_HEADS_H_

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace coxswain::reference {

// Rotation of one head vector and its inverse, either layout.
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

// The heads of latent attention of one token, and their gradients.
struct LatentShape {
  int64_t heads, nope, rope, value;
  bool interleaved;
};

template <typename T>
struct LatentRows {
  std::vector<T> q, kv, k_rope;
};

namespace latent_heads {

// Where each element of the packed row comes from: fn(packed, row, element) for each of q, kv and
// k_rope, of which the last goes to all heads.
template <typename Fn>
void ForElements(const LatentShape& s, const Fn& fn) {
  const int64_t width = s.nope + s.rope, keys = s.heads * width, values = 2 * keys;
  for (int64_t h = 0; h < s.heads; ++h) {
    for (int64_t j = 0; j < width; ++j) fn(h * width + j, 0, h * width + j);
    const int64_t kv = h * (s.nope + s.value);
    for (int64_t j = 0; j < s.nope; ++j) fn(keys + h * width + j, 1, kv + j);
    for (int64_t j = 0; j < s.rope; ++j) fn(keys + h * width + s.nope + j, 2, j);
    for (int64_t j = 0; j < s.value; ++j) fn(values + h * s.value + j, 1, kv + s.nope + j);
  }
}

// Turns what rotates of every head of q and k in a packed row.
template <typename T>
void Turn(const LatentShape& s, const T* cos, const T* sin, T sign, std::vector<T>* packed) {
  const int64_t width = s.nope + s.rope;
  for (int64_t head = 0; head < 2 * s.heads; ++head) {
    T* x = packed->data() + head * width + s.nope;
    RotateHead(s.rope, cos, sin, sign, x, s.interleaved);
  }
}

}  // namespace latent_heads

// cos, sin: [rope / 2] of the token.
template <typename T>
std::vector<T> LatentHeads(const LatentShape& s, const LatentRows<T>& in, const T* cos,
                           const T* sin) {
  std::vector<T> packed(static_cast<size_t>(s.heads * (2 * (s.nope + s.rope) + s.value)));
  latent_heads::ForElements(s, [&](int64_t at, int row, int64_t element) {
    const std::vector<T>& from = row == 0 ? in.q : row == 1 ? in.kv : in.k_rope;
    packed[static_cast<size_t>(at)] = from[static_cast<size_t>(element)];
  });
  latent_heads::Turn(s, cos, sin, T{1}, &packed);
  return packed;
}

template <typename T>
LatentRows<T> LatentHeadsBackward(const LatentShape& s, std::vector<T> dpacked, const T* cos,
                                  const T* sin) {
  latent_heads::Turn(s, cos, sin, T{-1}, &dpacked);
  LatentRows<T> gradient{
      .q = std::vector<T>(static_cast<size_t>(s.heads * (s.nope + s.rope))),
      .kv = std::vector<T>(static_cast<size_t>(s.heads * (s.nope + s.value))),
      .k_rope = std::vector<T>(static_cast<size_t>(s.rope)),
  };
  latent_heads::ForElements(s, [&](int64_t at, int row, int64_t element) {
    std::vector<T>& to = row == 0 ? gradient.q : row == 1 ? gradient.kv : gradient.k_rope;
    to[static_cast<size_t>(element)] += dpacked[static_cast<size_t>(at)];
  });
  return gradient;
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_HEADS_H_
