#include "kernels/cpu/products/sgemm.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

// Fortran BLAS, column-major.
extern "C" void sgemm_(const char* transa, const char* transb, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* lda,
                       const float* b, const int* ldb, const float* beta, float* c, const int* ldc);

namespace coxswain::kernels::cpu {
namespace {

int BlasExtent(int64_t value) {
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    throw std::invalid_argument("gemm: extent " + std::to_string(value) +
                                " is outside what BLAS takes, 0 to 2147483647");
  }
  return static_cast<int>(value);
}

int BlasStride(int64_t value) { return std::max(1, BlasExtent(value)); }

}  // namespace

void Sgemm(const Product& p) {
  // A row-major matrix is the column-major one of its transpose: C^T = op(B)^T op(A)^T.
  const int m = BlasExtent(p.m), n = BlasExtent(p.n), k = BlasExtent(p.k);
  const int stride_a = BlasStride(p.a.stride), stride_b = BlasStride(p.b.stride);
  const int stride_c = BlasStride(p.stride_c);
  if (m == 0 || n == 0) return;
  sgemm_(p.b.transposed ? "T" : "N", p.a.transposed ? "T" : "N", &n, &m, &k, &p.alpha, p.b.data,
         &stride_b, p.a.data, &stride_a, &p.beta, p.c, &stride_c);
}

}  // namespace coxswain::kernels::cpu
