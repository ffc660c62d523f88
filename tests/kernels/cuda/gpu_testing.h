// Inputs, device arrays and comparisons of the tests that run on a GPU.
//
// Every op is held against the fp64 formulas of tests/reference on the same inputs: what an op gets
// in bfloat16 is rounded first, and the reference sees the rounded values. kUnit(dtype) is the
// largest relative error of one rounding to that type; bounds are c kUnit norm, c derived beside
// each test.
#ifndef COXSWAIN_TESTS_KERNELS_CUDA_GPU_TESTING_H_
#define COXSWAIN_TESTS_KERNELS_CUDA_GPU_TESTING_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/lora/lora_product.h"
#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/products/gemm.h"
#include "tests/kernels/values.h"

namespace coxswain::kernels {

constexpr double kUnit(DType dtype) { return dtype == DType::kFloat32 ? 0x1p-24 : 0x1p-8; }
inline const char* Name(DType dtype) { return dtype == DType::kFloat32 ? "float32" : "bfloat16"; }

// One stream for all tests of the process.
inline Stream* TestStream() {
  static Stream* stream = CreateStream();
  return stream;
}

inline uint16_t BFloat16Bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBFloat16Bits(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline float Round(float value, DType dtype) {
  return dtype == DType::kFloat32 ? value : FromBFloat16Bits(BFloat16Bits(value));
}

// Normal numbers that `dtype` represents exactly.
inline Floats Normal(int64_t n, unsigned seed, DType dtype, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(Size(n));
  for (float& value : values) value = Round(normal(random) * scale, dtype);
  return values;
}

// Device memory of raw bytes, freed at the end.
class DeviceBytes {
 public:
  explicit DeviceBytes(int64_t bytes) : bytes_(bytes), data_(AllocateMemory(bytes)) {}
  ~DeviceBytes() { FreeMemory(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Workspace workspace() const { return {.data = data_, .bytes = bytes_}; }

 private:
  int64_t bytes_;
  void* data_;
};

// Workspace of exactly the bytes that an op asks for, filled with NaN patterns.
class Scratch : public DeviceBytes {
 public:
  explicit Scratch(int64_t bytes) : DeviceBytes(bytes) {
    SetMemory(data(), 0xff, bytes, TestStream());
  }
};

// A tensor on the device in `dtype`, seen from the host as floats. A tensor made from a count alone
// holds NaN, so that what an op does not write is found.
class DeviceTensor {
 public:
  DeviceTensor(DType dtype, int64_t count)
      : dtype_(dtype), count_(count), memory_(count * DTypeBytes(dtype)) {
    SetMemory(memory_.data(), 0xff, memory_.bytes(), nullptr);
  }
  DeviceTensor(DType dtype, const Floats& values)
      : DeviceTensor(dtype, static_cast<int64_t>(values.size())) {
    Write(values);
  }
  void Write(const Floats& values) {
    ASSERT_EQ(static_cast<int64_t>(values.size()), count_);
    if (dtype_ == DType::kFloat32) {
      CopyMemory(memory_.data(), values.data(), memory_.bytes(), nullptr);
      return;
    }
    std::vector<uint16_t> bits;
    bits.reserve(values.size());
    for (float value : values) bits.push_back(BFloat16Bits(value));
    CopyMemory(memory_.data(), bits.data(), memory_.bytes(), nullptr);
  }
  // Waits for the test stream.
  Floats Read() const {
    Synchronize(TestStream());
    Floats values(Size(count_));
    if (dtype_ == DType::kFloat32) {
      CopyMemory(values.data(), memory_.data(), memory_.bytes(), nullptr);
      return values;
    }
    std::vector<uint16_t> bits(Size(count_));
    CopyMemory(bits.data(), memory_.data(), memory_.bytes(), nullptr);
    for (size_t i = 0; i < bits.size(); ++i) values[i] = FromBFloat16Bits(bits[i]);
    return values;
  }
  void* data() const { return memory_.data(); }
  float* floats() const { return static_cast<float*>(memory_.data()); }
  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }

 private:
  DType dtype_;
  int64_t count_;
  DeviceBytes memory_;
};

// Plain values on the device: ids, indices, scalars.
template <typename T>
class DeviceValues {
 public:
  explicit DeviceValues(const std::vector<T>& values)
      : count_(values.size()), memory_(static_cast<int64_t>(values.size() * sizeof(T))) {
    CopyMemory(memory_.data(), values.data(), memory_.bytes(), nullptr);
  }
  std::vector<T> Read() const {
    Synchronize(TestStream());
    std::vector<T> values(count_);
    CopyMemory(values.data(), memory_.data(), memory_.bytes(), nullptr);
    return values;
  }
  T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  size_t count_;
  DeviceBytes memory_;
};

// The norm of the difference over the norm of the expected; NaN never passes.
inline void ExpectRelativeError(const Floats& actual, const Doubles& expected, double bound,
                                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(difference), bound * std::sqrt(norm) + 1e-30)
      << what << ": relative error " << std::sqrt(difference / norm);
}

// Elements of a product against their sums in double.
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

// What the tests of products with adapters share.

// Where one launch has both terms.
class FusedLoraTest : public testing::Test {
 protected:
  void SetUp() override {
    const LoraLinearSpec spec{.dtype = DType::kBFloat16, .in_features = 8, .rank = 8, .ldy = 8};
    if (!cuda::LoraProductTakes(spec)) GTEST_SKIP() << "compute capability 9.0 alone has it";
  }
};

// The first `count` elements of g, bfloat16, which a backward left in its workspace behind the
// scratch of products (kernels/cuda/lora/lora_workspace.h).
inline Floats ReadGradientOfH(const Scratch& workspace, int64_t count) {
  Synchronize(TestStream());
  std::vector<uint16_t> bits(Size(count));
  CopyMemory(bits.data(), static_cast<const char*>(workspace.data()) + GemmWorkspaceBytes(),
             count * 2, nullptr);
  Floats g;
  for (const uint16_t value : bits) g.push_back(FromBFloat16Bits(value));
  return g;
}

}  // namespace coxswain::kernels

#endif  // COXSWAIN_TESTS_KERNELS_CUDA_GPU_TESTING_H_
