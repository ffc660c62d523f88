// Both libraries: this file is of kernels_test and of gpu_tests. Products of known codes and scales
// against float64.
#include "kernels/experts/grouped_fp8_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/quantized_memory.h"
#include "tests/kernels/values.h"
#include "tests/reference/fp8.h"

namespace coxswain::kernels {
namespace grouped_fp8_linear_test {
namespace {

constexpr double kFloatUnit = 0x1p-24, kBfloatUnit = 0x1p-8;
using Counts = std::vector<int64_t>;

Stream* TestStream() {
  static Stream* stream = CreateStream();
  return stream;
}

GroupedFp8LinearSpec SpecOf(DType dtype) {
  return {.dtype = dtype, .experts = 1, .in_features = 16, .out_features = 16};
}
bool OnGpu() { return !GroupedFp8LinearSupports(SpecOf(DType::kFloat32)); }

struct Case {
  Counts counts;  // rows of each expert
  int64_t behind = 0, in = 0, out = 0;
  Fp8Format format = Fp8Format::kE4M3;  // of rows
  bool bias = false;
  int64_t bias_shift = 0;   // elements in front of it
  bool every_code = false;  // else codes of whole numbers up to 3

  int64_t experts() const { return std::ssize(counts); }
};
std::string Named(const Case& c) {
  std::string text = "rows";
  for (const int64_t count : c.counts) text += " " + std::to_string(count);
  return text + " + " + std::to_string(c.behind) + ", " + std::to_string(c.in) + " to " +
         std::to_string(c.out) + ", format " + std::to_string(static_cast<int>(c.format)) +
         (c.every_code ? ", any codes" : "");
}

std::vector<int32_t> OffsetsOf(const Counts& counts) {
  std::vector<int32_t> offsets = {0};
  for (const int64_t count : counts) {
    offsets.push_back(offsets.back() + static_cast<int32_t>(count));
  }
  return offsets;
}

// Rows of `k` codes, 0 behind them, with their values.
struct CodeRows {
  std::vector<uint8_t> codes;
  std::vector<double> values;
};

CodeRows Drawn(Fp8Format format, int64_t rows, int64_t k, bool every_code, unsigned seed) {
  std::mt19937 random(seed);
  const reference::Fp8Numbers numbers{.e5m2 = format == Fp8Format::kE5M2};
  CodeRows drawn{std::vector<uint8_t>(Size(rows * Fp8Stride(k)), 0), {}};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const auto draw = static_cast<int>(random() % 65536);
      const int code = every_code ? draw % (numbers.LastCode() + 1) | (draw >> 8 & 128)
                                  : numbers.Code(draw % 7 - 3);
      drawn.codes[Size(i * Fp8Stride(k) + j)] = static_cast<uint8_t>(code);
      drawn.values.push_back(numbers.Value(code));
    }
  }
  return drawn;
}

// Not a power of two.
std::vector<float> Scales(int64_t count) {
  std::vector<float> scales;
  for (int64_t i = 0; i < count; ++i) {
    scales.push_back(
        std::ldexp(1.0f + static_cast<float>(7 * i % 11) / 13.0f, static_cast<int>(i % 5) - 2));
  }
  return scales;
}

// Numbers of bfloat16 in either type.
class Tensor {
 public:
  explicit Tensor(const Floats& values) : floats_(values), halves_(Bits(values)) {}
  void* data() const {
    return OnGpu() ? static_cast<void*>(halves_.data()) : static_cast<void*>(floats_.data());
  }
  Floats Read() const {
    if (!OnGpu()) return floats_.Read();
    Floats values;
    for (const uint16_t bits : halves_.Read()) {
      values.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
    }
    return values;
  }

 private:
  static std::vector<uint16_t> Bits(const Floats& values) {
    std::vector<uint16_t> bits;
    for (const float value : values) {
      bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    }
    return bits;
  }

  const OnDevice<float> floats_;
  const OnDevice<uint16_t> halves_;
};

class Problem {
 public:
  explicit Problem(const Case& in)
      : c(in),
        offsets(OffsetsOf(c.counts)),
        rows(offsets.back() + c.behind),
        x(Drawn(c.format, rows, c.in, c.every_code, 1)),
        w(Drawn(Fp8Format::kE4M3, c.experts() * c.out, c.in, c.every_code, 2)),
        scales(Scales(c.experts())) {
    // Rows of no expert are NaN.
    std::fill(x.codes.begin() + offsets.back() * Fp8Stride(c.in), x.codes.end(), uint8_t{0x7f});
    for (int64_t i = 0; i < c.experts() * c.out; ++i) {
      bias.push_back(0.5f * static_cast<float>(i % 255 - 127));
    }
  }

  Floats Compute() const {
    const OnDevice<int32_t> device_offsets(offsets);
    const OnDevice<uint8_t> x_codes(x.codes), w_codes(w.codes);
    const OnDevice<float> x_scale(std::vector<float>{kRowScale}), w_scales(scales);
    Floats shifted_bias(Size(c.bias_shift), NAN);
    shifted_bias.insert(shifted_bias.end(), bias.begin(), bias.end());
    const Tensor y(Floats(Size(rows * c.out), NAN)), device_bias(shifted_bias);
    const GroupedFp8LinearSpec spec{.dtype = OnGpu() ? DType::kBFloat16 : DType::kFloat32,
                                    .row_format = c.format,
                                    .experts = c.experts(),
                                    .in_features = c.in,
                                    .out_features = c.out};
    const void* const first_bias =
        static_cast<const char*>(device_bias.data()) + c.bias_shift * DTypeBytes(spec.dtype);
    const int64_t bytes = GroupedFp8LinearWorkspaceBytes(spec, rows);
    const OnDevice<uint8_t> scratch(bytes);
    GroupedFp8Linear({.spec = spec,
                      .rows = rows,
                      .offsets = device_offsets.data(),
                      .x = x_codes.data(),
                      .x_scale = x_scale.data(),
                      .weight = w_codes.data(),
                      .weight_scales = w_scales.data(),
                      .bias = c.bias ? first_bias : nullptr,
                      .y = y.data(),
                      .workspace = {.data = scratch.data(), .bytes = bytes}},
                     TestStream());
    Synchronize(TestStream());
    return y.Read();
  }

  // Of row i of expert e.
  void Expect(int64_t e, int64_t i, const Floats& got) const;

  static constexpr float kRowScale = 1.3125f;
  const Case c;
  const std::vector<int32_t> offsets;
  const int64_t rows;
  CodeRows x, w;
  const std::vector<float> scales;
  Floats bias;
};

// u = 2^-24. Codes of whole numbers up to 3 have sums that every tensor core keeps exactly, below
// 2^12 for k up to 400. What rounds is then: the two scales 2 u, the bias u, the output. Of any
// codes a sum in float32 is off by k u of the sizes of its products, and on a tensor core of
// Hopper, which drops what is below 2^-13 of the largest of the 32 products and the sum that it
// adds at once, by 33 / 32 k 2^-13. Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024,
// section 3.3.2.
void Problem::Expect(int64_t e, int64_t i, const Floats& got) const {
  const double scale = static_cast<double>(kRowScale) * static_cast<double>(scales[Size(e)]);
  const auto k = static_cast<double>(c.in);
  const double kept = !c.every_code ? 0 : OnGpu() ? 33.0 / 32 * k * 0x1p-13 : k * kFloatUnit;
  for (int64_t n = 0; n < c.out; ++n) {
    double sum = 0, size = 0;
    for (int64_t j = 0; j < c.in; ++j) {
      const double term =
          x.values[Size(i * c.in + j)] * w.values[Size((e * c.out + n) * c.in + j)] * scale;
      sum += term;
      size += std::abs(term);
    }
    const double b = c.bias ? static_cast<double>(bias[Size(e * c.out + n)]) : 0.0;
    const double result = std::abs(sum) + std::abs(b);
    const double bound =
        kept * size + (3 * kFloatUnit + (OnGpu() ? kBfloatUnit : 0)) * (result + kept * size);
    ASSERT_NEAR(static_cast<double>(got[Size(i * c.out + n)]), sum + b, bound)
        << Named(c) << ", row " << i << " of expert " << e << ", column " << n;
  }
}

void Check(const Case& c) {
  const Problem problem(c);
  const Floats got = problem.Compute();
  for (int64_t e = 0; e < c.experts(); ++e) {
    for (int64_t i = problem.offsets[Size(e)]; i < problem.offsets[Size(e + 1)]; ++i) {
      problem.Expect(e, i, got);
    }
  }
  for (int64_t i = problem.offsets.back() * c.out; i < problem.rows * c.out; ++i) {
    ASSERT_EQ(got[Size(i)], 0.0f) << Named(c) << ", behind the experts";
  }
}

class GroupedFp8LinearTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!GroupedFp8LinearSupports(SpecOf(OnGpu() ? DType::kBFloat16 : DType::kFloat32))) {
      GTEST_SKIP() << "needs compute capability 9.0";
    }
  }
};

TEST_F(GroupedFp8LinearTest, ComputesTheRowsOfEachExpert) {
  for (const Counts& counts : {Counts{1}, Counts{5, 0, 3}, Counts{0, 0, 129, 1}, Counts{257, 0, 64},
                               Counts{0, 0, 0}, Counts{0, 130, 0}, Counts{63, 65, 128, 2, 1}}) {
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{16, 16}, {144, 272}, {272, 128}}) {
      Check({.counts = counts, .behind = 3, .in = in, .out = out});
    }
  }
}

// Of k the last step is not full, and codes end in zeros.
TEST_F(GroupedFp8LinearTest, TakesAnyNumberOfValues) {
  for (const int64_t in : {1, 15, 17, 31, 127, 129, 255, 257, 400}) {
    Check({.counts = {7, 0, 140}, .in = in, .out = 24});
  }
}

TEST_F(GroupedFp8LinearTest, AddsTheBiasOfTheExpert) {
  for (const int64_t shift : {0, 1, 2, 3}) {
    Check({.counts = {9, 131, 0, 4},
           .behind = 1,
           .in = 80,
           .out = 280,
           .bias = true,
           .bias_shift = shift});
  }
}

TEST_F(GroupedFp8LinearTest, TakesRowsInBothFormats) {
  for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
    for (const int64_t out : {128, 256, 384}) {
      Check({.counts = {70, 200}, .behind = 2, .in = 384, .out = out, .format = format});
      Check({.counts = {70, 9}, .in = 384, .out = out, .format = format, .every_code = true});
    }
  }
}

// Repeated bits; and where an expert's rows lie changes none of them on a GPU.
TEST_F(GroupedFp8LinearTest, RepeatsItsBits) {
  const Case c{.counts = {33, 0, 150}, .in = 208, .out = 144, .every_code = true};
  const Floats first = Problem(c).Compute();
  EXPECT_EQ(Problem(c).Compute(), first);
}

// A scale that is no number reaches the rows that it is of, and no others.
TEST_F(GroupedFp8LinearTest, ANanReachesItsOwnExpertAlone) {
  const Case c{.counts = {5, 130, 6}, .in = 48, .out = 32};
  Problem problem(c);
  std::fill_n(problem.w.codes.begin() + c.out * Fp8Stride(c.in), Fp8Stride(c.in), uint8_t{0x7f});
  const Floats got = problem.Compute();
  for (int64_t i = 0; i < problem.rows; ++i) {
    const bool second = i >= problem.offsets[1] && i < problem.offsets[2];
    EXPECT_EQ(std::isnan(got[Size(i * c.out)]), second) << "row " << i;
    EXPECT_FALSE(std::isnan(got[Size(i * c.out + 1)])) << "row " << i;
  }
}

}  // namespace
}  // namespace grouped_fp8_linear_test
}  // namespace coxswain::kernels
