// Matrix product, bias gradient and LoRA, row-major, by plain loops.
#ifndef COXSWAIN_TESTS_REFERENCE_LINEAR_H_
#define COXSWAIN_TESTS_REFERENCE_LINEAR_H_

#include <cstdint>
#include <vector>

namespace coxswain::reference {

template <typename T>
struct Matrix {
  const T* data;
  int64_t stride;
  bool transposed = false;

  T at(int64_t i, int64_t j) const {
    return transposed ? data[j * stride + i] : data[i * stride + j];
  }
};

struct Extents {
  int64_t m, n, k;
};

// c += alpha op(a) op(b).
template <typename T>
void AddProduct(Extents e, T alpha, Matrix<T> a, Matrix<T> b, T* c, int64_t stride_c) {
  for (int64_t i = 0; i < e.m; ++i) {
    for (int64_t j = 0; j < e.n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < e.k; ++p) sum += a.at(i, p) * b.at(p, j);
      c[i * stride_c + j] += alpha * sum;
    }
  }
}

// One adapter: x [T, K], a [r, K], b [N, r], y and dy [T, N]; `mask` [T, K] multiplies x before A.
template <typename T>
struct LoraProblem {
  int64_t rows, in, rank, out;
  T scale;
  const T *x, *mask, *a, *b;
};

template <typename T>
std::vector<T> Masked(const LoraProblem<T>& p) {
  std::vector<T> x(p.x, p.x + p.rows * p.in);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= p.mask[i];
  return x;
}

// y += scale (mask x) A^T B^T.
template <typename T>
void LoraForward(const LoraProblem<T>& p, T* y) {
  const std::vector<T> x = Masked(p);
  std::vector<T> h(static_cast<size_t>(p.rows * p.rank), 0);
  AddProduct<T>({p.rows, p.rank, p.in}, 1, {x.data(), p.in}, {p.a, p.in, true}, h.data(), p.rank);
  AddProduct<T>({p.rows, p.out, p.rank}, p.scale, {h.data(), p.rank}, {p.b, p.rank, true}, y,
                p.out);
}

// da, db and dx are accumulated.
template <typename T>
void LoraBackward(const LoraProblem<T>& p, const T* dy, T* da, T* db, T* dx) {
  const std::vector<T> x = Masked(p);
  std::vector<T> h(static_cast<size_t>(p.rows * p.rank), 0), g(h);
  std::vector<T> dropped(x.size(), 0);
  AddProduct<T>({p.rows, p.rank, p.in}, 1, {x.data(), p.in}, {p.a, p.in, true}, h.data(), p.rank);
  AddProduct<T>({p.rows, p.rank, p.out}, p.scale, {dy, p.out}, {p.b, p.rank}, g.data(), p.rank);
  AddProduct<T>({p.out, p.rank, p.rows}, p.scale, {dy, p.out, true}, {h.data(), p.rank}, db,
                p.rank);
  AddProduct<T>({p.rank, p.in, p.rows}, 1, {g.data(), p.rank, true}, {x.data(), p.in}, da, p.in);
  AddProduct<T>({p.rows, p.in, p.rank}, 1, {g.data(), p.rank}, {p.a, p.in}, dropped.data(), p.in);
  for (size_t i = 0; i < x.size(); ++i) dx[i] += p.mask[i] * dropped[i];
}

}  // namespace coxswain::reference

#endif  // COXSWAIN_TESTS_REFERENCE_LINEAR_H_
