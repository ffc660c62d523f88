// Tensors of more than 2^31 elements (invariant kernels-2). Every element is 0 but the last rows,
// behind 2^31; what an op makes of those has the bits of the op on them alone, and the first row is
// what the op makes of zeros. Widths of whole vectors and odd ones take different kernels.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_LARGE_TENSOR_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_LARGE_TENSOR_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/device.h"
#include "kernels/dtype.h"
#include "tests/kernels/cuda/gpu_testing.h"

namespace coxswain::kernels::gpu_large_sizes_test {

inline constexpr DType kType = DType::kBFloat16;
inline constexpr int64_t kLast = 5;  // rows that are not 0
inline constexpr int64_t kWidths[] = {4096, 4095};

// The last rows of so many start behind 2^31 elements.
inline int64_t RowsOf(int64_t columns) { return (int64_t{1} << 31) / columns + 1 + kLast; }

class LargeTensor {
 public:
  // An output: NaN.
  LargeTensor(int64_t rows, int64_t columns, DType dtype = kType)
      : dtype_(dtype), rows_(rows), columns_(columns), memory_(rows * columns * DTypeBytes(dtype)) {
    SetMemory(memory_.data(), 0xff, memory_.bytes(), nullptr);
  }
  // Zeros and the last rows.
  LargeTensor(int64_t rows, int64_t columns, const Floats& last, DType dtype = kType)
      : LargeTensor(rows, columns, dtype) {
    SetMemory(memory_.data(), 0, memory_.bytes(), nullptr);
    const DeviceTensor values(dtype_, last);
    CopyMemory(At(rows_ - kLast), values.data(), kLast * columns_ * DTypeBytes(dtype_), nullptr);
  }
  void* data() const { return memory_.data(); }
  Floats Last() const { return Read(rows_ - kLast, kLast); }
  bool StartsWithZeros() const { return Read(0, 1) == Floats(Size(columns_), 0.0f); }

 private:
  char* At(int64_t row) const {
    return static_cast<char*>(memory_.data()) + row * columns_ * DTypeBytes(dtype_);
  }
  Floats Read(int64_t row, int64_t count) const {
    Synchronize(TestStream());
    const DeviceTensor values(dtype_, count * columns_);
    CopyMemory(values.data(), At(row), count * columns_ * DTypeBytes(dtype_), nullptr);
    return values.Read();
  }

  DType dtype_;
  int64_t rows_, columns_;
  DeviceBytes memory_;
};

inline void ExpectLast(const LargeTensor& large, const DeviceTensor& alone, const char* what) {
  EXPECT_TRUE(SameBits(large.Last(), alone.Read())) << what;
  EXPECT_TRUE(large.StartsWithZeros()) << what;
}

inline Floats Rows(int64_t columns, unsigned seed) { return Normal(kLast * columns, seed, kType); }

// `tensors` of 2^31 elements of bfloat16 and some.
#define SKIP_WITHOUT_MEMORY_FOR(tensors)                               \
  if (FreeMemoryBytes() < ((tensors) * (int64_t{1} << 32)) * 5 / 4) {  \
    GTEST_SKIP() << "needs the memory of " << (tensors) << " tensors"; \
  }

}  // namespace coxswain::kernels::gpu_large_sizes_test

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_LARGE_TENSOR_H_
