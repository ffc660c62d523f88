// RMSNorm and its gradient, row by row, straight from the formulas of kernels/norms/norms.h.
#ifndef COXSWAIN_TESTS_REFERENCE_RMS_NORM_H_
#define COXSWAIN_TESTS_REFERENCE_RMS_NORM_H_

#include <cmath>
#include <cstdint>

namespace coxswain::reference {

template <typename T>
struct RmsNormShape {
  int64_t rows, hidden;
  T eps;
};

template <typename T>
void RmsNorm(const RmsNormShape<T>& shape, const T* x, const T* weight, T* y, T* rstd) {
  const int64_t n = shape.hidden;
  for (int64_t t = 0; t < shape.rows; ++t) {
    T squares = 0;
    for (int64_t j = 0; j < n; ++j) squares += x[t * n + j] * x[t * n + j];
    rstd[t] = 1 / std::sqrt(squares / static_cast<T>(n) + shape.eps);
    for (int64_t j = 0; j < n; ++j) y[t * n + j] = x[t * n + j] * rstd[t] * weight[j];
  }
}

// dx and dweight are accumulated.
template <typename T>
void RmsNormBackward(const RmsNormShape<T>& shape, const T* dy, const T* x, const T* weight, T* dx,
                     T* dweight) {
  const int64_t n = shape.hidden;
  for (int64_t t = 0; t < shape.rows; ++t) {
    T squares = 0, along = 0;
    for (int64_t j = 0; j < n; ++j) {
      squares += x[t * n + j] * x[t * n + j];
      along += dy[t * n + j] * weight[j] * x[t * n + j];
    }
    const T r = 1 / std::sqrt(squares / static_cast<T>(n) + shape.eps);
    for (int64_t j = 0; j < n; ++j) {
      const T m = dy[t * n + j] * weight[j];
      dx[t * n + j] += r * (m - x[t * n + j] * r * r * along / static_cast<T>(n));
      dweight[j] += dy[t * n + j] * x[t * n + j] * r;
    }
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_RMS_NORM_H_
