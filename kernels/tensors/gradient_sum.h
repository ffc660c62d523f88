// Adds a term in float32 to a gradient that is kept in bfloat16, as the products of micro-steps and
// chunks of the head do. g is the gradient, x the term, v their sum in float32, u = 2^-8:
//   nearest      g = rn(g + x): off by u |v| with every term. A term below u |g| is lost each time.
//   stochastic   g = one of the two neighbours of v, by distance from a draw of 16 bits: right in
//   the
//                mean, off by at most u |v| in standard deviation.
//   compensated  v = g + (c + x); g = rn(v); c = rn(v - g). The companion c, in bfloat16 too, keeps
//                what g cannot: off by u^2 |v| with every term, and by u |v| once, when c is left
//                out. g is then the nearest to g + c: adding c changes nothing.
// Where v is not finite, c is 0: infinity stays infinity.
//
// The draw of element e is half word `e mod 8`, the low half of word 0 first, of
//   Philox(key, (e / 8 low, e / 8 high + 2^8 part, bin, step)),
// e counted from GradientSum::number. So it depends on (seed, step, micro-step, part, parameter,
// element) alone, a micro-step being named by its first bin: not on the rank that computes it.
// Source: Kahan, "Further remarks on reducing truncation errors", 1965; Zamirai et al., "Revisiting
// BFloat16 Training", 2020 (both for weights).
#ifndef COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_H_
#define COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_H_

#include <cstdint>

#include "kernels/device.h"

namespace coxswain::kernels {

enum class GradientSumMode : uint8_t { kNearest, kStochastic, kCompensated };

// How a gradient is added to.
struct GradientSum {
  GradientSumMode mode = GradientSumMode::kNearest;
  void* companion = nullptr;  // compensated: c of the gradient's elements, in bfloat16
  // Stochastic:
  uint32_t key[2] = {0, 0};
  const uint32_t* step = nullptr;  // one word in device memory each; null: 0
  const uint32_t* bin = nullptr;
  uint32_t part = 0;   // of the micro-step's terms, below 2^24
  int64_t number = 0;  // of the gradient's first element, a multiple of 8, below 2^43

  // Of the gradient from an element on, whose number need not be a multiple of 8.
  GradientSum From(int64_t element) const {
    GradientSum from = *this;
    if (companion != nullptr) from.companion = static_cast<uint16_t*>(companion) + element;
    from.number += element;
    return from;
  }
};

// Overwrites the gradient, and c, where it does not accumulate.
struct AddToGradientArgs {
  int64_t count = 0;
  const float* term = nullptr;  // [count]
  bool accumulate = true;
  void* gradient = nullptr;  // [count], bfloat16
  GradientSum sum = {};
};
void AddToGradient(const AddToGradientArgs& args, Stream* stream);

}  // namespace coxswain::kernels

#endif  // COXSWAIN_KERNELS_TENSORS_GRADIENT_SUM_H_
