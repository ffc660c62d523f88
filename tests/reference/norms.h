// Norms of rows, forward and backward, in double.
#ifndef COXSWAIN_TESTS_REFERENCE_NORMS_H_
#define COXSWAIN_TESTS_REFERENCE_NORMS_H_

#include <cmath>
#include <cstdint>

namespace coxswain::reference {

// RMSNorm and its gradient, row by row, straight from the formulas of kernels/norms/norms.h.

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

// LayerNorm and its gradient, row by row, straight from the formulas of kernels/norms/norms.h.

template <typename T>
struct LayerNormShape {
  int64_t rows, hidden;
  T eps;
};

template <typename T>
struct RowMoments {
  T mean, rstd;
};

template <typename T>
RowMoments<T> Moments(const LayerNormShape<T>& shape, const T* x) {
  T mean = 0, squares = 0;
  for (int64_t j = 0; j < shape.hidden; ++j) mean += x[j];
  mean /= static_cast<T>(shape.hidden);
  for (int64_t j = 0; j < shape.hidden; ++j) squares += (x[j] - mean) * (x[j] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<T>(shape.hidden) + shape.eps)};
}

// bias null: none.
template <typename T>
void LayerNorm(const LayerNormShape<T>& shape, const T* x, const T* weight, const T* bias, T* y,
               T* mean, T* rstd) {
  const int64_t n = shape.hidden;
  for (int64_t t = 0; t < shape.rows; ++t) {
    const RowMoments<T> moments = Moments(shape, x + t * n);
    mean[t] = moments.mean;
    rstd[t] = moments.rstd;
    for (int64_t j = 0; j < n; ++j) {
      y[t * n + j] =
          (x[t * n + j] - mean[t]) * rstd[t] * weight[j] + (bias == nullptr ? 0 : bias[j]);
    }
  }
}

// dx, dweight and dbias are accumulated.
template <typename T>
void LayerNormBackward(const LayerNormShape<T>& shape, const T* dy, const T* x, const T* weight,
                       T* dx, T* dweight, T* dbias) {
  const int64_t n = shape.hidden;
  for (int64_t t = 0; t < shape.rows; ++t) {
    const RowMoments<T> moments = Moments(shape, x + t * n);
    T mean_m = 0, mean_mn = 0;
    for (int64_t j = 0; j < n; ++j) {
      const T m = dy[t * n + j] * weight[j];
      mean_m += m / static_cast<T>(n);
      mean_mn += m * (x[t * n + j] - moments.mean) * moments.rstd / static_cast<T>(n);
    }
    for (int64_t j = 0; j < n; ++j) {
      const T normed = (x[t * n + j] - moments.mean) * moments.rstd;
      dx[t * n + j] += moments.rstd * (dy[t * n + j] * weight[j] - mean_m - normed * mean_mn);
      dweight[j] += dy[t * n + j] * normed;
      dbias[j] += dy[t * n + j];
    }
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_NORMS_H_
