// How far the rows of a norm over squares may be from the reference (norms.h, heads.h).
#ifndef COXSWAIN_TESTS_KERNELS_NORM_BOUNDS_H_
#define COXSWAIN_TESTS_KERNELS_NORM_BOUNDS_H_

#include <cstdint>

#include "tests/kernels/testing.h"

namespace coxswain::kernels {

// Mean of n squares of one sign: relative error (n/16 + 5) u in 16 lanes, halved by the square
// root; then at most 4 roundings. Values are below 5 sigma, weights below 5.
inline double ForwardBound(int64_t hidden) {
  return (static_cast<double>(hidden) / 32 + 7) * kUnit * 25;
}

// dx = r (m - x c) with |c| <= max |m x|: the sum over n terms gives (n/16 + 8) u of 5^4 at most,
// and r <= 2 for rows of unit variance (n = 1: r = 1/|x| cancels the powers of x instead).
inline double BackwardBound(int64_t hidden) {
  return (static_cast<double>(hidden) / 16 + 8) * kUnit * 625;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_NORM_BOUNDS_H_
