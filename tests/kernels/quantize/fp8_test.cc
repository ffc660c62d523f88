// Both libraries: this file is of kernels_test and of gpu_tests. Codes and scales are compared with
// one reference bit by bit, so the two libraries agree.
#include "kernels/quantize/fp8.h"

#include <bit>
#include <cmath>
#include <random>

#include "kernels/quantize/fp8_blocks.h"
#include "tests/kernels/quantized_memory.h"
#include "tests/reference/fp8.h"

namespace coxswain::kernels {
namespace fp8_test {
namespace {

constexpr Fp8Format kFormats[] = {Fp8Format::kE4M3, Fp8Format::kE5M2};
constexpr Fp8Scaling kScalings[] = {Fp8Scaling::kTensor, Fp8Scaling::kRow, Fp8Scaling::kTile,
                                    Fp8Scaling::kBlock};

struct Case {
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Scaling scaling = Fp8Scaling::kTensor;
  int64_t rows = 0, cols = 0;
  int64_t beside = 0;  // elements behind each row of x
  bool straight = true, turned = true;
};
std::string Named(const Case& c) {
  return "format " + std::to_string(static_cast<int>(c.format)) + ", scaling " +
         std::to_string(static_cast<int>(c.scaling)) + ", " + std::to_string(c.rows) + " x " +
         std::to_string(c.cols) + " + " + std::to_string(c.beside);
}

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

struct Operand {
  int64_t outer = 0, k = 0;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};
struct Operands {
  Operand straight, turned;
};

// Rows of x as the op reads them, with large values between their ends.
template <typename T>
std::vector<T> Spread(const Case& c, const std::vector<T>& x) {
  T between{};
  std::memset(&between, 0x7f, sizeof(between));

  std::vector<T> spread;
  for (int64_t i = 0; i < c.rows; ++i) {
    spread.insert(spread.end(), x.begin() + i * c.cols, x.begin() + (i + 1) * c.cols);
    spread.insert(spread.end(), static_cast<size_t>(c.beside), between);
  }
  return spread;
}

// What the op is given of amax, on the host; null: nothing. `observed`: before and after.
struct Amax {
  const float *known = nullptr, *expected = nullptr;
  float* observed = nullptr;
};
OnDevice<float> Given(const float* value) {
  return OnDevice<float>(std::vector<float>{value == nullptr ? 0.0f : *value});
}

// T: float, or uint16_t for the bits of bfloat16.
template <typename T>
Operands Quantized(const Case& c, const std::vector<T>& x, const Amax& amax = {}) {
  const OnDevice<T> on_device(Spread(c, x));
  const OnDevice<float> known = Given(amax.known), expected = Given(amax.expected);
  const OnDevice<float> observed = Given(amax.observed);
  const OnDevice<uint8_t> codes(c.rows * Fp8Stride(c.cols)), turned(c.cols * Fp8Stride(c.rows));
  const OnDevice<float> scales(Fp8Scales(c.scaling, c.rows, c.cols));
  const OnDevice<float> turned_scales(Fp8Scales(c.scaling, c.cols, c.rows));
  const int64_t bytes =
      amax.known == nullptr ? Fp8QuantizeWorkspaceBytes(c.scaling, c.rows, c.cols) : int64_t{0};
  const OnDevice<uint8_t> scratch(bytes);
  Fp8QuantizeArgs args{.dtype = sizeof(T) == 4 ? DType::kFloat32 : DType::kBFloat16,
                       .format = c.format,
                       .scaling = c.scaling,
                       .rows = c.rows,
                       .cols = c.cols,
                       .x = on_device.data(),
                       .ldx = c.cols + c.beside,
                       .amax = amax.known == nullptr ? nullptr : known.data(),
                       .expected = amax.expected == nullptr ? nullptr : expected.data(),
                       .observed = amax.observed == nullptr ? nullptr : observed.data(),
                       .workspace = {.data = scratch.data(), .bytes = bytes}};
  if (c.straight) args.straight = {.codes = codes.data(), .scales = scales.data()};
  if (c.turned) args.turned = {.codes = turned.data(), .scales = turned_scales.data()};
  Fp8Quantize(args, nullptr);
  Synchronize(nullptr);
  if (amax.observed != nullptr) *amax.observed = observed.Read()[0];
  return {.straight = {c.rows, c.cols, codes.Read(), scales.Read()},
          .turned = {c.cols, c.rows, turned.Read(), turned_scales.Read()}};
}

float Widened(float value) { return value; }
float Widened(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

bool IsNanCode(Fp8Format format, int code) {
  return format == Fp8Format::kE4M3 ? (code & 127) == 127 : (code & 127) > 124;
}

// `x`: [outer, k] of the operand.
void ExpectOperand(const Case& c, const Operand& got, const std::vector<float>& x) {
  const reference::Fp8Numbers numbers{.e5m2 = c.format == Fp8Format::kE5M2};
  const reference::Fp8Groups groups = GroupsOf(c.scaling, got.outer, got.k);
  const reference::Fp8Operand expected =
      reference::Fp8Quantized(numbers, groups, got.outer, got.k, x);
  for (int64_t i = 0; i < got.outer; ++i) {
    for (int64_t j = 0; j < Fp8Stride(got.k); ++j) {
      const int code = got.codes[static_cast<size_t>(i * Fp8Stride(got.k) + j)];
      if (j >= got.k) {
        ASSERT_EQ(code, 0) << Named(c) << ", " << i << ", " << j << " behind the last of k";
        continue;
      }
      const auto at = static_cast<size_t>(i * got.k + j);
      const float scale = got.scales[static_cast<size_t>(groups.Place(i, j))];
      if (std::isnan(expected.scales[at])) {
        ASSERT_TRUE(std::isnan(scale)) << Named(c) << ", " << i << ", " << j;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(scale), std::bit_cast<uint32_t>(expected.scales[at]))
            << Named(c) << ", " << i << ", " << j << ": " << scale;
      }
      if (expected.codes[at] < 0) {
        ASSERT_TRUE(IsNanCode(c.format, code)) << Named(c) << ", " << i << ", " << j;
      } else {
        ASSERT_EQ(code, expected.codes[at])
            << Named(c) << ", " << i << ", " << j << ": " << x[at] << " over " << scale;
      }
    }
  }
}

template <typename T>
void Check(const Case& c, const std::vector<T>& x, const Operands& got) {
  std::vector<float> straight, turned;
  for (const T value : x) straight.push_back(Widened(value));
  for (int64_t j = 0; j < c.cols; ++j) {
    for (int64_t i = 0; i < c.rows; ++i) {
      turned.push_back(straight[static_cast<size_t>(i * c.cols + j)]);
    }
  }
  if (c.straight) ExpectOperand(c, got.straight, straight);
  if (c.turned) ExpectOperand(c, got.turned, turned);
}
template <typename T>
void Check(const Case& c, const std::vector<T>& x) {
  Check(c, x, Quantized(c, x));
}

bool HasBfloat16() { return Fp8QuantizeSupports({.dtype = DType::kBFloat16}); }

std::vector<uint16_t> Bfloat16(const std::vector<float>& x) {
  std::vector<uint16_t> bits;
  for (const float value : x) {
    bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  }
  return bits;
}

// Of sizes over twelve decades, each row with one of its own, so that no two scales are alike.
std::vector<float> Varied(int64_t rows, int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (int64_t i = 0; i < rows * cols; ++i) {
    x.push_back(normal(random) * std::pow(10.0f, static_cast<float>(i / cols % 13) - 6.0f));
  }
  return x;
}

void CheckBothTypes(const Case& c, const std::vector<float>& x) {
  Check(c, x);
  if (HasBfloat16()) Check(c, Bfloat16(x));
}

// Several matrices behind each other are each what it is alone.
TEST(Fp8Test, QuantisesMatricesEachWithItsOwnScale) {
  constexpr int64_t kMatrices = 5;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{3, 7}, {130, 144}, {256, 40}}) {
    for (const Fp8Format format : kFormats) {
      const Case c{.format = format, .rows = rows, .cols = cols};
      std::mt19937 random(9);
      std::vector<float> x;
      for (int64_t i = 0; i < kMatrices * rows * cols; ++i) {
        x.push_back(std::ldexp(static_cast<float>(static_cast<int>(random() % 255) - 127),
                               static_cast<int>(i / (rows * cols))));
      }
      const OnDevice<float> on_device(x);
      const OnDevice<uint8_t> codes(kMatrices * rows * Fp8Stride(cols));
      const OnDevice<uint8_t> turned(kMatrices * cols * Fp8Stride(rows));
      const OnDevice<float> scales(kMatrices), turned_scales(kMatrices);
      const int64_t bytes = kMatrices * Fp8QuantizeWorkspaceBytes(c.scaling, rows, cols);
      const OnDevice<uint8_t> scratch(bytes);
      Fp8Quantize({.format = format,
                   .rows = rows,
                   .cols = cols,
                   .matrices = kMatrices,
                   .x = on_device.data(),
                   .ldx = cols,
                   .straight = {.codes = codes.data(), .scales = scales.data()},
                   .turned = {.codes = turned.data(), .scales = turned_scales.data()},
                   .workspace = {.data = scratch.data(), .bytes = bytes}},
                  nullptr);
      Synchronize(nullptr);
      const auto part = [](const auto& values, int64_t i, int64_t count) {
        return std::vector(values.begin() + i * count, values.begin() + (i + 1) * count);
      };
      for (int64_t i = 0; i < kMatrices; ++i) {
        const Operands one = Quantized(c, part(x, i, rows * cols));
        EXPECT_EQ(part(codes.Read(), i, rows * Fp8Stride(cols)), one.straight.codes) << Named(c);
        EXPECT_EQ(part(turned.Read(), i, cols * Fp8Stride(rows)), one.turned.codes) << Named(c);
        EXPECT_EQ(scales.Read()[static_cast<size_t>(i)], one.straight.scales[0]) << Named(c);
        EXPECT_EQ(turned_scales.Read()[static_cast<size_t>(i)], one.turned.scales[0]) << Named(c);
      }
    }
  }
}

TEST(Fp8Test, RefusesMatricesWithAnAmaxOrAnotherScaling) {
  Fp8QuantizeArgs args{.rows = 2, .cols = 2, .matrices = 2, .ldx = 2};
  args.scaling = Fp8Scaling::kRow;
  EXPECT_THROW(Fp8Quantize(args, nullptr), std::invalid_argument);
  args.scaling = Fp8Scaling::kTensor;
  args.ldx = 3;
  EXPECT_THROW(Fp8Quantize(args, nullptr), std::invalid_argument);
  const float amax = 1;
  args.ldx = 2;
  args.amax = &amax;
  EXPECT_THROW(Fp8Quantize(args, nullptr), std::invalid_argument);
}

TEST(Fp8Test, WritesBothOperandsOfEveryTail) {
  for (const int64_t rows : {1, 7, 15, 17, 127, 129}) {
    for (const int64_t cols : {1, 7, 15, 17, 127, 129}) {
      for (const Fp8Scaling scaling : kScalings) {
        const Case c{kFormats[(rows + cols) / 2 % 2], scaling, rows, cols, rows % 3};
        CheckBothTypes(c, Varied(rows, cols, static_cast<unsigned>(rows * 200 + cols)));
      }
    }
  }
}

// Extents and strides that vectors divide.
TEST(Fp8Test, WritesBothOperandsOfWholeTiles) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{16, 64}, {128, 128}, {144, 272}, {256, 400}}) {
    for (const Fp8Scaling scaling : kScalings) {
      for (const Fp8Format format : kFormats) {
        for (const int64_t beside : {0, 8}) {
          CheckBothTypes({format, scaling, rows, cols, beside}, Varied(rows, cols, 5));
        }
      }
    }
  }
}

TEST(Fp8Test, WritesOneOperandWhereOneIsWanted) {
  for (const Fp8Scaling scaling : kScalings) {
    for (const bool turned : {false, true}) {
      Case c{Fp8Format::kE4M3, scaling, 130, 144, 0};
      (turned ? c.straight : c.turned) = false;
      CheckBothTypes(c, Varied(c.rows, c.cols, 9));
    }
  }
}

// Every bfloat16, NaN and infinity among them, at scale 1: what is beyond the format saturates.
TEST(Fp8Test, RoundsEveryBfloat16ToNearestEven) {
  std::vector<float> x;
  std::vector<uint16_t> bits;
  for (uint32_t i = 0; i < 65536; ++i) {
    x.push_back(Widened(static_cast<uint16_t>(i)));
    bits.push_back(static_cast<uint16_t>(i));
  }
  for (const Fp8Format format : kFormats) {
    const reference::Fp8Numbers numbers{.e5m2 = format == Fp8Format::kE5M2};
    const Case c{format, Fp8Scaling::kTensor, 256, 256, 0};
    const auto amax = static_cast<float>(numbers.Largest());
    const auto check = [&](const Operands& got) {
      ASSERT_EQ(got.straight.scales[0], 1.0f);
      for (size_t i = 0; i < x.size(); ++i) {
        const int expected = numbers.Code(x[i]), code = got.straight.codes[i];
        ASSERT_EQ(got.turned.codes[i % 256 * 256 + i / 256], code);
        if (expected < 0) {
          ASSERT_TRUE(IsNanCode(format, code)) << i;
        } else {
          ASSERT_EQ(code, expected) << x[i];
        }
      }
    };
    check(Quantized(c, x, {.known = &amax}));
    if (HasBfloat16()) check(Quantized(c, bits, {.known = &amax}));
  }
}

// Float32 between two numbers: at the middle, and one bit to either side of it.
TEST(Fp8Test, RoundsTheMiddleToEven) {
  for (const Fp8Format format : kFormats) {
    const reference::Fp8Numbers numbers{.e5m2 = format == Fp8Format::kE5M2};
    std::vector<float> x;
    for (int code = 0; code < numbers.LastCode(); ++code) {
      const auto middle = static_cast<float>((numbers.Value(code) + numbers.Value(code + 1)) / 2);
      for (const float value :
           {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, HUGE_VALF)}) {
        x.push_back(value);
        x.push_back(-value);
      }
    }
    const auto amax = static_cast<float>(numbers.Largest());
    const Case c{format, Fp8Scaling::kTensor, 1, static_cast<int64_t>(x.size()), 0};
    const Operands got = Quantized(c, x, {.known = &amax});
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(got.straight.codes[i], numbers.Code(x[i])) << x[i];
    }
  }
}

TEST(Fp8Test, TakesScaleOneOfNothingButZeros) {
  for (const Fp8Scaling scaling : kScalings) {
    const Case c{Fp8Format::kE4M3, scaling, 33, 130, 0};
    std::vector<float> x(33 * 130, 0.0f);
    x[7] = -0.0f;
    CheckBothTypes(c, x);
    EXPECT_EQ(Quantized(c, x).straight.scales[0], 1.0f);
  }
}

// The smallest numbers would have a scale without an inverse, the largest one near the end.
TEST(Fp8Test, KeepsScalesAndTheirInversesFinite) {
  for (const float size : {0x1p-149f, 0x1p-133f, 0x1p-120f, 0x1.fep127f}) {
    for (const Fp8Format format : kFormats) {
      for (const Fp8Scaling scaling : kScalings) {
        const Case c{format, scaling, 3, 20, 0};
        std::vector<float> x(60, size);
        for (size_t i = 0; i < x.size(); i += 3) x[i] = -size / 2;
        CheckBothTypes(c, x);
      }
    }
  }
}

// What is no number reaches the scale of its group, of either sign and however large others are,
// and no other.
TEST(Fp8Test, KeepsNanAndInfinityInTheirGroup) {
  for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    for (const Fp8Scaling scaling : kScalings) {
      for (const int64_t cols : {200, 256}) {
        const Case c{Fp8Format::kE4M3, scaling, 256, cols, 0};
        std::vector<float> x = Varied(c.rows, c.cols, 3);
        x[static_cast<size_t>(130 * cols + 40)] = bad;
        const Operands got = Quantized(c, x);
        Check(c, x, got);
        if (HasBfloat16()) Check(c, Bfloat16(x));
        const auto place = [&](int64_t i, int64_t j) {
          return static_cast<size_t>(GroupsOf(scaling, c.rows, c.cols).Place(i, j));
        };
        EXPECT_FALSE(std::isfinite(got.straight.scales[place(130, 40)]));
        if (scaling != Fp8Scaling::kTensor) {
          EXPECT_TRUE(std::isfinite(got.straight.scales[place(0, 40)]));
        }
      }
    }
  }
}

// An amax from the producer is believed: a smaller one saturates, and x is not searched.
TEST(Fp8Test, BelievesAKnownLargestValue) {
  const Case c{Fp8Format::kE4M3, Fp8Scaling::kTensor, 20, 36, 0};
  std::vector<float> x(20 * 36, 1.0f);
  x[100] = -3.0f;
  const float amax = 1.5f;
  const Operands got = Quantized(c, x, {.known = &amax});
  const reference::Fp8Numbers numbers;
  EXPECT_EQ(got.straight.scales[0], numbers.Scale(amax));
  EXPECT_EQ(got.turned.scales[0], numbers.Scale(amax));
  EXPECT_EQ(got.straight.codes[100 / 36 * 48 + 100 % 36], 0xfe);
  EXPECT_EQ(got.straight.codes[0], numbers.CodeOf(1.0f, numbers.Scale(amax)));
}

// Delayed scaling. Codes of x by the scale of `amax`, both operands.
void ExpectCodesBy(float amax, const Case& c, const std::vector<float>& x, const Operands& got) {
  const reference::Fp8Numbers numbers{.e5m2 = c.format == Fp8Format::kE5M2};
  const float scale = numbers.Scale(amax);
  EXPECT_EQ(got.straight.scales[0], scale);
  EXPECT_EQ(got.turned.scales[0], scale);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      const int want = numbers.CodeOf(x[static_cast<size_t>(i * c.cols + j)], scale);
      const int straight = got.straight.codes[static_cast<size_t>(i * Fp8Stride(c.cols) + j)];
      const int turned = got.turned.codes[static_cast<size_t>(j * Fp8Stride(c.rows) + i)];
      ASSERT_EQ(turned, straight) << Named(c) << ", " << i << ", " << j;
      if (want < 0) {
        ASSERT_TRUE(IsNanCode(c.format, straight)) << Named(c) << ", " << i << ", " << j;
      } else {
        ASSERT_EQ(straight, want) << Named(c) << ", " << i << ", " << j;
      }
    }
  }
}

float AmaxOf(const std::vector<float>& x) {
  float largest = 0;
  for (const float value : x) largest = reference::LargerSize(largest, value);
  return largest;
}

// By twice the amax, and by half of it, where the largest values take the largest code.
TEST(Fp8Test, TakesTheScaleThatIsExpectedAndObservesTheLargest) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 7}, {130, 300}, {257, 128}}) {
    for (const Fp8Format format : kFormats) {
      const Case c{format, Fp8Scaling::kTensor, rows, cols, 3};
      const std::vector<float> x = Varied(rows, cols, 31);
      const float amax = AmaxOf(x);
      for (const float share : {2.0f, 0.5f}) {
        const float expected = share * amax;
        float observed = 0;
        ExpectCodesBy(expected, c, x,
                      Quantized(c, x, {.expected = &expected, .observed = &observed}));
        EXPECT_EQ(observed, amax) << Named(c);
        if (!HasBfloat16()) continue;
        const std::vector<uint16_t> bits = Bfloat16(x);
        std::vector<float> rounded;
        for (const uint16_t value : bits) rounded.push_back(Widened(value));
        observed = 0;
        ExpectCodesBy(expected, c, rounded,
                      Quantized(c, bits, {.expected = &expected, .observed = &observed}));
        EXPECT_EQ(observed, AmaxOf(rounded)) << Named(c);
      }
    }
  }
}

TEST(Fp8Test, FindsWhatIsNotExpectedYet) {
  const Case c{Fp8Format::kE5M2, Fp8Scaling::kTensor, 200, 260, 0};
  const std::vector<float> x = Varied(c.rows, c.cols, 33), zeros(x.size(), 0.0f);
  for (const float nothing : {0.0f, -0.0f}) {
    float observed = 0;
    const Operands got = Quantized(c, x, {.expected = &nothing, .observed = &observed});
    Check(c, x, got);
    EXPECT_EQ(observed, AmaxOf(x));
    observed = 0;
    Check(c, zeros, Quantized(c, zeros, {.expected = &nothing, .observed = &observed}));
    EXPECT_EQ(observed, 0.0f);
  }
  // One that is known is observed too, and nothing needs to be.
  const float amax = 3.0f;
  ExpectCodesBy(amax, c, x, Quantized(c, x, {.expected = &amax}));
}

// No codes are wanted, with an amax that is given so that x is read once.
TEST(Fp8Test, ObservesAlone) {
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 64}, {140, 150}, {3, 1}}) {
    Case c{Fp8Format::kE4M3, Fp8Scaling::kTensor, rows, cols, 5};
    c.straight = c.turned = false;
    const std::vector<float> x = Varied(rows, cols, 37);
    const float one = 1.0f;
    const OnDevice<float> on_device(Spread(c, x)), known = Given(&one), observed = Given(nullptr);
    const OnDevice<uint8_t> scratch(Fp8QuantizeWorkspaceBytes(c.scaling, rows, cols));
    Fp8Quantize({.rows = rows,
                 .cols = cols,
                 .x = on_device.data(),
                 .ldx = cols + c.beside,
                 .amax = known.data(),
                 .observed = observed.data(),
                 .workspace = {.data = scratch.data(),
                               .bytes = Fp8QuantizeWorkspaceBytes(c.scaling, rows, cols)}},
                nullptr);
    Synchronize(nullptr);
    EXPECT_EQ(observed.Read()[0], AmaxOf(x)) << rows << " x " << cols;
  }
}

// Codes, their values with a scale of 1, and their codes again, turned: those of x turned.
TEST(Fp8Test, CodesAreTurnedByTheirValues) {
  const Case c{Fp8Format::kE4M3, Fp8Scaling::kTensor, 144, 80, 0};
  const std::vector<float> x = Varied(c.rows, c.cols, 39);
  const Operands got = Quantized(c, x);
  const OnDevice<uint8_t> codes(got.straight.codes);
  const OnDevice<float> ones(std::vector<float>(4, 1.0f));
  const OnDevice<float> values(c.rows * c.cols);
  Fp8BlocksDequantize({.rows = c.rows,
                       .cols = c.cols,
                       .codes = codes.data(),
                       .scales = ones.data(),
                       .out = values.data()},
                      nullptr);
  Synchronize(nullptr);
  const float largest = Fp8Largest(Fp8Format::kE4M3);
  const Operands again = Quantized(c, values.Read(), {.known = &largest});
  EXPECT_EQ(again.turned.codes, got.turned.codes);
  EXPECT_EQ(again.turned.scales[0], 1.0f);
}

TEST(Fp8Test, ObservedOnlyGrows) {
  const Case c{Fp8Format::kE4M3, Fp8Scaling::kTensor, 140, 150, 0};
  const std::vector<float> x = Varied(c.rows, c.cols, 35);
  const float amax = AmaxOf(x), expected = 1.0f;
  for (const auto& [before, after] :
       {std::pair{amax / 2, amax}, {2 * amax, 2 * amax}, {HUGE_VALF, HUGE_VALF}}) {
    float observed = before;
    Quantized(c, x, {.expected = &expected, .observed = &observed});
    EXPECT_EQ(observed, after);
  }
  float observed = std::nanf("");
  Quantized(c, x, {.expected = &expected, .observed = &observed});
  EXPECT_TRUE(std::isnan(observed));
}

// Neither is lost: infinity takes the largest code, but is observed.
TEST(Fp8Test, ObservesNanAndInfinity) {
  for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    const Case c{Fp8Format::kE4M3, Fp8Scaling::kTensor, 140, 150, 0};
    std::vector<float> x = Varied(c.rows, c.cols, 37);
    x[130 * 150 + 140] = bad;
    const float expected = 5.0f;
    float observed = 0;
    const Operands got = Quantized(c, x, {.expected = &expected, .observed = &observed});
    ExpectCodesBy(expected, c, x, got);
    EXPECT_EQ(std::isnan(observed), std::isnan(bad));
    if (!std::isnan(bad)) {
      EXPECT_EQ(observed, HUGE_VALF);
    }
  }
}

TEST(Fp8Test, WritesTheSameBitsAgain) {
  for (const Fp8Scaling scaling : kScalings) {
    const Case c{Fp8Format::kE5M2, scaling, 300, 272, 0};
    const std::vector<float> x = Varied(c.rows, c.cols, 21);
    const Operands one = Quantized(c, x), two = Quantized(c, x);
    EXPECT_EQ(one.straight.codes, two.straight.codes);
    EXPECT_EQ(one.turned.codes, two.turned.codes);
  }
}

TEST(Fp8Test, RefusesWhatItsContractForbidsAndDoesNothingOfNone) {
  EXPECT_THROW(Fp8Quantize({.rows = -1}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8Quantize({.cols = -1}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8Quantize({.rows = 2, .cols = 3, .ldx = 2}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8Quantize({.rows = 2, .cols = 3, .ldx = 3}, nullptr), std::invalid_argument);
  const float value = 2.0f;
  float observed = 0.5f;
  const Case tensor{Fp8Format::kE4M3, Fp8Scaling::kTensor, 1, 1, 0};
  const Case row{Fp8Format::kE4M3, Fp8Scaling::kRow, 1, 1, 0};
  const std::vector<float> one = {1.0f};
  EXPECT_THROW(Quantized(row, one, {.expected = &value}), std::invalid_argument);
  EXPECT_THROW(Quantized(row, one, {.observed = &observed}), std::invalid_argument);
  EXPECT_THROW(Quantized(tensor, one, {.known = &value, .expected = &value}),
               std::invalid_argument);
  const Operands nothing = Quantized<float>({Fp8Format::kE4M3, Fp8Scaling::kTensor, 0, 5, 0}, {},
                                            {.expected = &value, .observed = &observed});
  EXPECT_EQ(nothing.straight.scales[0], reference::Fp8Numbers().Scale(value));
  EXPECT_EQ(observed, 0.5f);
  for (const Fp8Scaling scaling : kScalings) {
    const Operands none = Quantized<float>({Fp8Format::kE4M3, scaling, 0, 5, 0}, {});
    if (scaling == Fp8Scaling::kTensor) {
      EXPECT_EQ(none.straight.scales[0], 1.0f);
      EXPECT_EQ(none.turned.scales[0], 1.0f);
    }
  }
}

}  // namespace
}  // namespace fp8_test
}  // namespace coxswain::kernels
