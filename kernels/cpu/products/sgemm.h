// Row-major float32 matrix product on the linked BLAS.
#ifndef COXSWAIN_KERNELS_CPU_PRODUCTS_SGEMM_H_
#define COXSWAIN_KERNELS_CPU_PRODUCTS_SGEMM_H_

#include <cstdint>

namespace coxswain::kernels::cpu {

// A matrix as stored: row-major, `stride` elements from row to row; op() transposes it if set.
struct ConstMatrix {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

struct Product {
  int64_t m, n, k;
  float alpha;
  ConstMatrix a;  // op(a): [m, k]
  ConstMatrix b;  // op(b): [k, n]
  float beta;     // 0: c is not read
  float* c;       // [m, n]
  int64_t stride_c;
};

// c = alpha op(a) op(b) + beta c. Throws std::invalid_argument when an extent exceeds 2^31 - 1.
void Sgemm(const Product& product);

}  // namespace coxswain::kernels::cpu

#endif  // COXSWAIN_KERNELS_CPU_PRODUCTS_SGEMM_H_
