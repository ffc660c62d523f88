// Both libraries: this file is of kernels_test and of gpu_tests.
#include "kernels/products/fp8_gemm.h"

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "kernels/products/gemm.h"
#include "tests/kernels/quantized_memory.h"
#include "tests/kernels/values.h"
#include "tests/reference/fp8.h"

namespace coxswain::kernels {
namespace fp8_gemm_test {
namespace {

constexpr double kFloatUnit = 0x1p-24, kBfloatUnit = 0x1p-8;

Stream* TestStream() {
  static Stream* stream = CreateStream();
  return stream;
}

bool OnGpu() { return Fp8GemmSupports({.output_dtype = DType::kBFloat16}); }

struct Case {
  Fp8GemmSpec spec = {};
  int64_t m = 0, n = 0, k = 0;
  float beta = 0.0f;
  bool bias = false, beside = false;  // Z beside C, which is NaN before
  bool every_code = false;            // else codes of whole numbers up to 3
  int64_t step = 1;                   // every step-th column is compared
};
std::string Named(const Case& c) {
  const auto number = [](auto value) { return std::to_string(static_cast<int64_t>(value)); };
  return number(c.m) + " x " + number(c.n) + " x " + number(c.k) + ", formats " +
         number(c.spec.a_format) + number(c.spec.b_format) + ", scalings " +
         number(c.spec.a_scaling) + number(c.spec.b_scaling) + ", output " +
         number(c.spec.output_dtype) + ", promote " + number(c.spec.promote) + ", beta " +
         std::to_string(c.beta) + ", bias " + number(c.bias);
}

// An operand of known codes and scales.
struct Operand {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<double> values;  // [outer, k], scaled
};

reference::Fp8Groups GroupsOf(Fp8Scaling scaling, int64_t outer, int64_t k) {
  switch (scaling) {
    case Fp8Scaling::kTensor:
      return reference::Fp8TensorGroups();
    case Fp8Scaling::kRow:
      return reference::Fp8RowGroups();
    case Fp8Scaling::kTile:
      return reference::Fp8TileGroups(outer);
    case Fp8Scaling::kBlock:
      return reference::Fp8BlockGroups(k);
  }
  return {};
}

int DrawnCode(const reference::Fp8Numbers& numbers, const std::vector<int>& some,
              std::mt19937* random) {
  const auto draw = static_cast<int>((*random)() % 65536);
  if (!some.empty()) return some[static_cast<size_t>(draw) % some.size()];
  return draw % (numbers.LastCode() + 1) | (draw >> 8 & 128);
}

Operand Drawn(Fp8Format format, Fp8Scaling scaling, int64_t outer, int64_t k, bool every_code,
              unsigned seed) {
  std::mt19937 random(seed);
  const reference::Fp8Numbers numbers{.e5m2 = format == Fp8Format::kE5M2};
  const reference::Fp8Groups groups = GroupsOf(scaling, outer, k);
  Operand drawn{std::vector<uint8_t>(Size(outer * Fp8Stride(k)), 0),
                std::vector<float>(Size(Fp8Scales(scaling, outer, k)), 0.0f),
                {}};
  std::vector<int> some;
  for (int number = -3; number <= 3 && !every_code; ++number) some.push_back(numbers.Code(number));
  for (float& scale : drawn.scales) {
    scale = std::ldexp(1.0f + static_cast<float>(random() % 1000) / 1001.0f,
                       static_cast<int>(random() % 5) - 2);
  }
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const int code = DrawnCode(numbers, some, &random);
      drawn.codes[Size(i * Fp8Stride(k) + j)] = static_cast<uint8_t>(code);
      drawn.values.push_back(numbers.Value(code) *
                             static_cast<double>(drawn.scales[Size(groups.Place(i, j))]));
    }
  }
  return drawn;
}

uint16_t Bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Values on the device in either type; those given are such as bfloat16 has.
class Tensor {
 public:
  Tensor(DType dtype, const Floats& values)
      : wide_(dtype == DType::kFloat32),
        floats_(wide_ ? values : Floats{}),
        halves_(Bits(values)) {}
  void* data() const {
    return wide_ ? static_cast<void*>(floats_.data()) : static_cast<void*>(halves_.data());
  }
  Floats Read() const {
    if (wide_) return floats_.Read();
    Floats values;
    for (const uint16_t bits : halves_.Read()) {
      values.push_back(std::bit_cast<float>(uint32_t{bits} << 16));
    }
    return values;
  }

 private:
  std::vector<uint16_t> Bits(const Floats& values) const {
    std::vector<uint16_t> bits;
    for (const float value : values) {
      if (!wide_) bits.push_back(Bfloat16(value));
    }
    return bits;
  }

  const bool wide_;
  const OnDevice<float> floats_;
  const OnDevice<uint16_t> halves_;
};

Floats Halves(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(static_cast<int>(random() % 255) - 127) * 0.5f);
  }
  return values;
}

struct Problem {
  Case c;
  Operand a, b;
  int64_t ldc = 0;
  Floats z, bias;

  explicit Problem(const Case& in)
      : c(in),
        a(Drawn(c.spec.a_format, c.spec.a_scaling, c.m, c.k, c.every_code, 1)),
        b(Drawn(c.spec.b_format, c.spec.b_scaling, c.n, c.k, c.every_code, 2)),
        ldc(c.n + 16),
        z(Halves(c.m * ldc, 3)),
        bias(Halves(c.n, 4)) {}

  Floats Compute() const {
    const OnDevice<uint8_t> a_codes(a.codes), b_codes(b.codes);
    const OnDevice<float> a_scales(a.scales), b_scales(b.scales);
    const bool reads_c = c.beta != 0.0f && !c.beside;
    const Tensor out(c.spec.output_dtype, reads_c ? z : Floats(z.size(), NAN));
    const Tensor addend(c.spec.output_dtype, z), device_bias(c.spec.bias_dtype, bias);
    const int64_t bytes = Fp8GemmWorkspaceBytes(c.spec, c.m, c.n, c.k);
    const OnDevice<uint8_t> scratch(bytes);
    Fp8Gemm({.spec = c.spec,
             .m = c.m,
             .n = c.n,
             .k = c.k,
             .a = a_codes.data(),
             .a_scales = a_scales.data(),
             .b = b_codes.data(),
             .b_scales = b_scales.data(),
             .beta = c.beta,
             .c = out.data(),
             .ldc = ldc,
             .addend = c.beside ? addend.data() : nullptr,
             .bias = c.bias ? device_bias.data() : nullptr,
             .workspace = {.data = scratch.data(), .bytes = bytes}},
            TestStream());
    Synchronize(TestStream());
    return out.Read();
  }
};

// u = 2^-24. Codes of whole numbers up to 3 have sums that every tensor core keeps exactly: below
// 2^12 for k up to 400. What rounds is then: the CPU's decoded tiles, k u; or scales onto the sums
// of 128 of k and their sum, (k / 128 + 2) u; the two scales 2 u, bias, beta Z and their sums 3 u;
// the output, the product where the library rounds it before it adds it to what is in C, Z or the
// bias, and bias with beta Z there. Of any codes, a tensor core of Hopper drops what is below 2^-13
// of the largest of the 32 products and the sum that it adds at once: 33 / 32 k 2^-13. Source:
// DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.3.2.
void Check(Case c) {
  const bool tiles =
      c.spec.a_scaling == Fp8Scaling::kTile || c.spec.a_scaling == Fp8Scaling::kBlock;
  if (tiles && OnGpu()) c.m = (c.m + kFp8TileRows - 1) / kFp8TileRows * kFp8TileRows;
  const Problem problem(c);
  const Floats got = problem.Compute();
  const double kept = c.every_code && OnGpu() ? 33.0 / 32 * 0x1p-13 : 0;
  const double k = static_cast<double>(c.k);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; j += c.step) {
      double sum = 0, sizes = 0;
      for (int64_t l = 0; l < c.k; ++l) {
        const double term =
            problem.a.values[Size(i * c.k + l)] * problem.b.values[Size(j * c.k + l)];
        sum += term;
        sizes += std::abs(term);
      }
      const auto at = Size(i * problem.ldc + j);
      const double bias = c.bias ? problem.bias[Size(j)] : 0, added = c.beta * problem.z[at];
      const double expected = sum + bias + added;
      const double roundings = (k + 7) * kFloatUnit + k * kept;
      double bound = roundings * (sizes + std::abs(bias) + std::abs(added));
      if (c.spec.output_dtype == DType::kBFloat16) {
        const double first = c.beta == 0 && !c.bias ? 0 : std::abs(sum);
        bound +=
            kBfloatUnit * (std::abs(expected) + first + std::abs(bias) + std::abs(added) + bound);
      }
      ASSERT_LE(std::abs(got[at] - expected), bound)
          << Named(c) << " at " << i << ", " << j << ": " << got[at] << ", expected " << expected;
    }
  }
}

// What this library has of one output type: each pair of scalings with each pair of formats.
std::vector<Fp8GemmSpec> Specs(DType output) {
  constexpr Fp8Scaling kPairs[][2] = {{Fp8Scaling::kTensor, Fp8Scaling::kTensor},
                                      {Fp8Scaling::kRow, Fp8Scaling::kRow},
                                      {Fp8Scaling::kTile, Fp8Scaling::kTile},
                                      {Fp8Scaling::kTile, Fp8Scaling::kBlock},
                                      {Fp8Scaling::kBlock, Fp8Scaling::kTile}};
  constexpr Fp8Format kFormats[][2] = {{Fp8Format::kE4M3, Fp8Format::kE4M3},
                                       {Fp8Format::kE5M2, Fp8Format::kE4M3},
                                       {Fp8Format::kE4M3, Fp8Format::kE5M2}};
  std::vector<Fp8GemmSpec> specs;
  for (const auto& [a_scaling, b_scaling] : kPairs) {
    for (const auto& [a_format, b_format] : kFormats) {
      const Fp8GemmSpec spec{.output_dtype = output,
                             .bias_dtype = output,
                             .a_format = a_format,
                             .b_format = b_format,
                             .a_scaling = a_scaling,
                             .b_scaling = b_scaling};
      if (Fp8GemmSupports(spec)) specs.push_back(spec);
    }
  }
  return specs;
}

class Fp8GemmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Fp8GemmSupports({})) GTEST_SKIP() << "this device has no products in FP8";
  }
};

TEST_F(Fp8GemmTest, MatchesReferenceOfEveryScalingAndFormat) {
  for (const DType output : {DType::kFloat32, DType::kBFloat16}) {
    for (Fp8GemmSpec spec : Specs(output)) {
      for (const bool promote : {false, true}) {
        spec.promote = promote;
        Check({.spec = spec, .m = 130, .n = 144, .k = 272});
        Check({.spec = spec, .m = 128, .n = 256, .k = 384, .beta = 1.0f});
      }
    }
  }
}

// Of every extent: m and k that nothing divides, one row, one of k.
TEST_F(Fp8GemmTest, MatchesReferenceOfOddExtents) {
  for (const DType output : {DType::kFloat32, DType::kBFloat16}) {
    for (const Fp8GemmSpec& spec : Specs(output)) {
      for (const int64_t m : {1, 7, 17, 129}) {
        for (const int64_t k : {1, 15, 129}) Check({.spec = spec, .m = m, .n = 16, .k = k});
      }
    }
  }
}

TEST_F(Fp8GemmTest, AddsBiasAndAddend) {
  for (const DType output : {DType::kFloat32, DType::kBFloat16}) {
    for (Fp8GemmSpec spec : Specs(output)) {
      Check({.spec = spec, .m = 48, .n = 160, .k = 144, .bias = true});
      Check({.spec = spec, .m = 48, .n = 160, .k = 144, .beta = 1.0f, .bias = true});
      Check({.spec = spec, .m = 48, .n = 160, .k = 144, .beta = 0.5f, .beside = true});
      Check(
          {.spec = spec, .m = 48, .n = 160, .k = 144, .beta = 1.0f, .bias = true, .beside = true});
      spec.bias_dtype = output == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
      if (Fp8GemmSupports(spec)) Check({.spec = spec, .m = 17, .n = 32, .k = 40, .bias = true});
    }
  }
}

TEST_F(Fp8GemmTest, MatchesReferenceOfEveryCode) {
  for (Fp8GemmSpec spec : Specs(DType::kFloat32)) {
    Check({.spec = spec, .m = 65, .n = 96, .k = 300, .every_code = true});
  }
}

TEST_F(Fp8GemmTest, HasAnyNOnTheCpu) {
  if (OnGpu()) {
    EXPECT_THROW(Problem({.m = 4, .n = 5, .k = 6}).Compute(), std::invalid_argument);
    return;
  }
  for (const Fp8GemmSpec& spec : Specs(DType::kFloat32)) {
    Check({.spec = spec, .m = 3, .n = 5, .k = 131, .beta = 1.0f, .bias = true});
  }
}

TEST_F(Fp8GemmTest, LeavesBiasAndAddendWithoutTerms) {
  for (const Fp8GemmSpec& spec : Specs(DType::kFloat32)) {
    Check({.spec = spec, .m = 5, .n = 32, .k = 0});
    Check({.spec = spec, .m = 5, .n = 32, .k = 0, .beta = 1.0f, .bias = true});
    Check({.spec = spec, .m = 5, .n = 32, .k = 0, .beta = 1.0f, .bias = true, .beside = true});
    EXPECT_TRUE(Problem({.spec = spec, .m = 0, .n = 32, .k = 16}).Compute().empty());
  }
}

// A scale that is NaN reaches what it scales and nothing else.
TEST_F(Fp8GemmTest, KeepsNanScalesInTheirRows) {
  for (const Fp8GemmSpec& spec : Specs(DType::kFloat32)) {
    if (spec.a_scaling != Fp8Scaling::kRow && spec.a_scaling != Fp8Scaling::kTile) continue;
    Problem problem({.spec = spec, .m = 64, .n = 32, .k = 200});
    problem.a.scales[11] = NAN;
    const Floats got = problem.Compute();
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_EQ(std::isnan(got[Size(i * problem.ldc + 3)]), i == 11) << Named(problem.c) << i;
    }
  }
}

TEST_F(Fp8GemmTest, GivesTheSameBitsAgain) {
  for (const Fp8GemmSpec& spec : Specs(DType::kFloat32)) {
    const Problem problem(
        {.spec = spec, .m = 256, .n = 128, .k = 1000, .beta = 1.0f, .every_code = true});
    EXPECT_TRUE(SameBits(problem.Compute(), problem.Compute())) << Named(problem.c);
  }
}

// What training in FP8 multiplies: forward, the gradient of x, and that of W by tensors and rows
// with gradients in either format; by tiles and blocks in E4M3.
TEST_F(Fp8GemmTest, HasWhatTrainingNeeds) {
  if (!Fp8GemmSupports({.a_scaling = Fp8Scaling::kRow, .b_scaling = Fp8Scaling::kRow})) {
    GTEST_SKIP() << "this device has products scaled by tensor alone";
  }
  for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kRow}) {
    for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
      EXPECT_TRUE(Fp8GemmSupports(
          {.a_format = format, .a_scaling = scaling, .b_scaling = scaling, .promote = true}));
    }
  }
  for (const Fp8Scaling scaling : {Fp8Scaling::kTile, Fp8Scaling::kBlock}) {
    EXPECT_TRUE(Fp8GemmSupports({.a_scaling = Fp8Scaling::kTile, .b_scaling = scaling}));
  }
}

// The table with products of C = A B^T + Z + bias apart from what they add.
std::string TableOfProductsApart() {
  nlohmann::json table = nlohmann::json::parse(GemmTable());
  for (nlohmann::json& gemm : table["gemms"]) {
    if (gemm.contains("fp8") && gemm["accumulate"] == true) gemm["apart"] = true;
  }
  return table.dump();
}

// As where the library has no algorithm that adds: by panels of rows, several where 128 rows are 64
// MiB.
TEST_F(Fp8GemmTest, MatchesReferenceByPanels) {
  if (GemmTable().empty()) GTEST_SKIP() << "the CPU has no table of products";
  for (const DType output : {DType::kFloat32, DType::kBFloat16}) {
    for (const Fp8GemmSpec& spec : Specs(output)) {
      std::vector<Case> cases = {{.spec = spec, .m = 130, .n = 160, .k = 272, .beta = 1.0f}};
      cases.push_back({.spec = spec, .m = 7, .n = 32, .k = 144, .beta = 0.5f, .bias = true});
      if (output == DType::kBFloat16 && spec.a_format == spec.b_format) {
        cases.push_back({.spec = spec, .m = 300, .n = 131072, .k = 144, .beta = 1.0f});
        cases.back().step = 1021;
      }
      for (const Case& c : cases) Check(c);
      ASSERT_TRUE(LoadGemmTable(TableOfProductsApart()));
      for (const Case& c : cases) Check(c);
    }
  }
}

TEST_F(Fp8GemmTest, HasNoOtherPairs) {
  const auto has = [](Fp8Scaling a, Fp8Scaling b) {
    return Fp8GemmSupports({.a_scaling = a, .b_scaling = b});
  };
  EXPECT_FALSE(has(Fp8Scaling::kTensor, Fp8Scaling::kRow));
  EXPECT_FALSE(has(Fp8Scaling::kTensor, Fp8Scaling::kTile));
  EXPECT_FALSE(has(Fp8Scaling::kBlock, Fp8Scaling::kRow));
  EXPECT_FALSE(has(Fp8Scaling::kBlock, Fp8Scaling::kBlock));
  EXPECT_FALSE(Fp8GemmSupports({.a_format = Fp8Format::kE5M2, .b_format = Fp8Format::kE5M2}));
}

TEST_F(Fp8GemmTest, RefusesWhatItsContractForbids) {
  EXPECT_THROW(
      Problem({.spec = {.b_scaling = Fp8Scaling::kRow}, .m = 1, .n = 16, .k = 1}).Compute(),
      std::invalid_argument);
  const Fp8GemmArgs good{.m = 1, .n = 16, .k = 16, .ldc = 16};
  Fp8GemmArgs narrow = good, negative = good;
  narrow.ldc = 15;
  negative.k = -1;
  EXPECT_THROW(Fp8Gemm(narrow, TestStream()), std::invalid_argument);
  EXPECT_THROW(Fp8Gemm(negative, TestStream()), std::invalid_argument);
  EXPECT_THROW(Fp8Gemm(good, TestStream()), std::invalid_argument);  // no workspace
}

}  // namespace
}  // namespace fp8_gemm_test
}  // namespace coxswain::kernels
