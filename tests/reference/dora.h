// A DoRA linear with W + s B A formed, and the gradients of its magnitudes and of what they scale.
#ifndef COXSWAIN_TESTS_REFERENCE_DORA_H_
#define COXSWAIN_TESTS_REFERENCE_DORA_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace coxswain::reference {

template <typename T>
struct DoraProblem {
  int64_t rows, in, rank, out;
  T scale;
  const T *x, *w, *a, *b, *magnitude;  // [rows, in] [out, in] [rank, in] [out, rank] [out]
};

// ||W_j + s (B A)_j|| [out].
template <typename T>
std::vector<T> DoraNorms(const DoraProblem<T>& p) {
  std::vector<T> norms;
  for (int64_t j = 0; j < p.out; ++j) {
    T squares = 0;
    for (int64_t k = 0; k < p.in; ++k) {
      T weight = p.w[j * p.in + k];
      for (int64_t l = 0; l < p.rank; ++l) {
        weight += p.scale * p.b[j * p.rank + l] * p.a[l * p.in + k];
      }
      squares += weight * weight;
    }
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

// u = x (W + s B A)^T [rows, out].
template <typename T>
std::vector<T> DoraUnscaled(const DoraProblem<T>& p) {
  std::vector<T> u;
  for (int64_t t = 0; t < p.rows; ++t) {
    for (int64_t j = 0; j < p.out; ++j) {
      T sum = 0;
      for (int64_t k = 0; k < p.in; ++k) {
        T weight = p.w[j * p.in + k];
        for (int64_t l = 0; l < p.rank; ++l) {
          weight += p.scale * p.b[j * p.rank + l] * p.a[l * p.in + k];
        }
        sum += p.x[t * p.in + k] * weight;
      }
      u.push_back(sum);
    }
  }
  return u;
}

// y [rows, out] of u, n and m; bias [out].
template <typename T>
void DoraForward(const DoraProblem<T>& p, const T* u, const T* norms, const T* bias, T* y) {
  for (int64_t i = 0; i < p.rows * p.out; ++i) {
    const int64_t j = i % p.out;
    y[i] = u[i] * p.magnitude[j] / norms[j] + bias[j];
  }
}

// du [rows, out]; dmagnitude [out] accumulates.
template <typename T>
void DoraBackward(const DoraProblem<T>& p, const T* u, const T* norms, const T* dy, T* du,
                  T* dmagnitude) {
  for (int64_t i = 0; i < p.rows * p.out; ++i) {
    const int64_t j = i % p.out;
    du[i] = dy[i] * p.magnitude[j] / norms[j];
    dmagnitude[j] += dy[i] * u[i] / norms[j];
  }
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_DORA_H_
