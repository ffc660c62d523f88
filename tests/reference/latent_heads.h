// The heads of latent attention of one token, and their gradients.
#ifndef COXSWAIN_TESTS_REFERENCE_LATENT_HEADS_H_
#define COXSWAIN_TESTS_REFERENCE_LATENT_HEADS_H_

#include <cstdint>
#include <vector>

#include "tests/reference/rope.h"

namespace coxswain::reference {

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

#endif  // COXSWAIN_TESTS_REFERENCE_LATENT_HEADS_H_
