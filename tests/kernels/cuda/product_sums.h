// Elements of a product against their sums in double.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_PRODUCT_SUMS_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_PRODUCT_SUMS_H_

#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels {

struct ProductRows {
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;  // elements between rows
  int64_t step = 1;    // every step-th row is compared
};

// The j-th element of row t is a sum of the products that terms(t, j, add) gives to add(a, b), a
// and b float, rounded to bfloat16 once. Of k products, exact in float32, it is in any order within
// k u of the sum of their sizes; tensor cores cut where float32 rounds, which doubles u.
template <typename Terms>
void ExpectSums(const Floats& out, const ProductRows& of, const Terms& terms,
                const std::string& what) {
  for (int64_t t = 0; t < of.rows; t += of.step) {
    for (int64_t j = 0; j < of.columns; ++j) {
      double sum = 0, size = 0, count = 0;
      terms(t, j, [&](float a, float b) {
        const double term = static_cast<double>(a) * static_cast<double>(b);
        sum += term;
        size += std::abs(term);
        ++count;
      });
      const double bound =
          2 * count * kUnit(DType::kFloat32) * size + kUnit(DType::kBFloat16) * std::abs(sum);
      const float value = out[Size(t * of.stride + j)];
      ASSERT_LE(std::abs(value - sum), bound)
          << what << " row " << t << " column " << j << ": " << value << ", expected " << sum;
    }
  }
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_PRODUCT_SUMS_H_
