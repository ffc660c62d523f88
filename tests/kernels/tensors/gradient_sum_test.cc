#include "kernels/tensors/gradient_sum.h"

#include <limits>
#include <utility>

#include "kernels/device.h"
#include "kernels/products/summed_product.h"
#include "kernels/tensors/gradient_sum_element.h"
#include "tests/kernels/testing.h"

namespace coxswain::kernels {
namespace gradient_sum_test {
namespace {

using Halves = std::vector<uint16_t>;

constexpr double kRounding = 0x1p-8;  // u of gradient_sum.h

float Value(uint16_t half) { return FloatOfBits(uint32_t{half} << 16); }
uint16_t Half(float x) { return static_cast<uint16_t>(BitsOfFloat(RoundToBfloat16(x)) >> 16); }

// A gradient that terms are added to, and the exact sum beside it.
class Sum {
 public:
  Sum(GradientSumMode mode, int64_t elements)
      : mode_(mode),
        gradient_(Size(elements)),
        companion_(Size(elements)),
        exact_(Size(elements)),
        drift_(Size(elements)),
        squares_(Size(elements)) {}

  void Add(const Floats& term) {
    const uint32_t step = 3, bin = terms_;
    AddToGradient({.count = static_cast<int64_t>(term.size()),
                   .term = term.data(),
                   .accumulate = terms_++ > 0,
                   .gradient = gradient_.data(),
                   .sum = {.mode = mode_,
                           .companion = companion_.data(),
                           .key = {7, 9},
                           .step = &step,
                           .bin = &bin}},
                  nullptr);
    for (size_t i = 0; i < term.size(); ++i) Follow(i, term[i]);
  }

  // Of the whole gradient.
  double RelativeError() const {
    double error = 0, norm = 0;
    for (size_t i = 0; i < exact_.size(); ++i) {
      error += Error(i) * Error(i);
      norm += exact_[i] * exact_[i];
    }
    return std::sqrt(error / norm);
  }
  double Error(size_t i) const { return Value(gradient_[i]) - exact_[i]; }
  // Compensated: of each term u^2 of the sum in the companion, two roundings of float32 on the way;
  // u of the end in the gradient.
  double CompensatedBound(size_t i) const {
    return kRounding * (std::abs(exact_[i]) + drift_[i]) + drift_[i];
  }
  // Stochastic: the sum of the variances of all roundings.
  double Variance(size_t i) const { return squares_[i]; }
  size_t size() const { return exact_.size(); }
  const Halves& gradient() const { return gradient_; }

 private:
  void Follow(size_t i, double x) {
    const double before = std::abs(exact_[i]) + drift_[i];
    exact_[i] += x;
    const double after = std::abs(exact_[i]) + drift_[i];
    drift_[i] +=
        (kRounding * kRounding + kUnit) * after + kUnit * (std::abs(x) + kRounding * before);
    squares_[i] += kRounding * kRounding * exact_[i] * exact_[i];
  }

  const GradientSumMode mode_;
  Halves gradient_, companion_;
  Doubles exact_, drift_, squares_;
  uint32_t terms_ = 0;
};

constexpr int64_t kElements = 4096;

// Terms of noise, around a signal of as large a size where there is one.
Sum SumOf(GradientSumMode mode, int terms, float signal) {
  const Floats mean = Normal(kElements, 1, signal);
  Sum sum(mode, kElements);
  for (int k = 0; k < terms; ++k) {
    Floats term = Normal(kElements, static_cast<unsigned>(100 + k));
    for (size_t i = 0; i < term.size(); ++i) term[i] += mean[i];
    sum.Add(term);
  }
  return sum;
}

TEST(GradientSumTest, ACompensatedSumIsOffByOneRoundingWhateverTheTerms) {
  for (const int terms : {1, 256, 1024}) {
    for (const float signal : {0.0f, 1.0f}) {
      const Sum sum = SumOf(GradientSumMode::kCompensated, terms, signal);
      for (size_t i = 0; i < sum.size(); ++i) {
        ASSERT_LE(std::abs(sum.Error(i)), sum.CompensatedBound(i)) << i << " of " << terms;
      }
      // A rounding of u in norm, and what 1,024 terms add to it.
      EXPECT_LE(sum.RelativeError(), 1.1 * kRounding) << terms;
    }
  }
}

// Over 4,096 elements the sum of squares is within 10 standard deviations, 2 % each, of its mean,
// and the sum of errors within 5.
TEST(GradientSumTest, AStochasticSumIsRightInTheMean) {
  for (const int terms : {256, 1024}) {
    for (const float signal : {0.0f, 1.0f}) {
      const Sum sum = SumOf(GradientSumMode::kStochastic, terms, signal);
      double variance = 0, squares = 0, error = 0;
      for (size_t i = 0; i < sum.size(); ++i) {
        variance += sum.Variance(i);
        squares += sum.Error(i) * sum.Error(i);
        error += sum.Error(i);
      }
      EXPECT_LE(squares, 1.2 * variance) << terms;
      EXPECT_LE(std::abs(error), 5 * std::sqrt(variance)) << terms;
      EXPECT_GT(squares, 0) << terms;
    }
  }
}

// Why there is a choice: what rounding to nearest loses grows with the terms, and of a signal as
// large as its noise it loses most.
TEST(GradientSumTest, RoundingToNearestLosesWithTheTerms) {
  EXPECT_LT(SumOf(GradientSumMode::kNearest, 64, 0.0f).RelativeError(), 0.01);
  const double noise = SumOf(GradientSumMode::kNearest, 256, 0.0f).RelativeError();
  EXPECT_GT(noise, 0.01);
  EXPECT_GT(noise, 4 * SumOf(GradientSumMode::kCompensated, 256, 0.0f).RelativeError());
  const double nearest = SumOf(GradientSumMode::kNearest, 1024, 1.0f).RelativeError();
  EXPECT_GT(nearest, 4 * SumOf(GradientSumMode::kStochastic, 1024, 1.0f).RelativeError());
  EXPECT_GT(nearest, 40 * SumOf(GradientSumMode::kCompensated, 1024, 1.0f).RelativeError());
}

struct Mode {
  GradientSumMode mode;
  const char* name;
};
constexpr Mode kModes[] = {{GradientSumMode::kNearest, "nearest"},
                           {GradientSumMode::kStochastic, "stochastic"},
                           {GradientSumMode::kCompensated, "compensated"}};

struct State {
  Halves gradient, companion;
  bool operator==(const State&) const = default;
};

// After a term, which is added in two parts.
State After(const GradientSum& sum, const Floats& term, bool accumulate,
            uint16_t before = Half(1.5f), int64_t cut = 0) {
  State state{Halves(term.size(), before), Halves(term.size(), accumulate ? Half(0.001f) : 0x7fff)};
  GradientSum whole = sum;
  whole.companion = state.companion.data();
  const auto n = static_cast<int64_t>(term.size());
  for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, std::pair{cut, n}}) {
    AddToGradient({.count = end - begin,
                   .term = term.data() + begin,
                   .accumulate = accumulate,
                   .gradient = state.gradient.data() + begin,
                   .sum = whole.From(begin)},
                  nullptr);
  }
  return state;
}

// Invariant kernels-4.
TEST(GradientSumTest, WhatIsOverwrittenIsNotRead) {
  const Floats term = Normal(103, 1);
  for (const Mode& mode : kModes) {
    const auto [gradient, companion] = After({.mode = mode.mode}, term, false, 0x7fff);
    for (size_t i = 0; i < term.size(); ++i) {
      ASSERT_NEAR(Value(gradient[i]), term[i], 2 * kRounding * std::abs(term[i])) << mode.name;
      if (mode.mode != GradientSumMode::kCompensated) continue;
      ASSERT_EQ(gradient[i], Half(term[i]));
      ASSERT_EQ(companion[i], Half(term[i] - Value(gradient[i])));
    }
  }
}

// Invariant kernels-6.
TEST(GradientSumTest, NanAndInfinityStay) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // A NaN to whose bits a carry would do most.
  const Floats term = {FloatOfBits(0x7fffffffu), kInfinity, -kInfinity,
                       std::numeric_limits<float>::max(), 1};
  for (const Mode& mode : kModes) {
    auto [gradient, companion] = After({.mode = mode.mode}, term, true);
    EXPECT_TRUE(std::isnan(Value(gradient[0]))) << mode.name;
    EXPECT_EQ(Value(gradient[1]), kInfinity) << mode.name;
    EXPECT_EQ(Value(gradient[2]), -kInfinity) << mode.name;
    EXPECT_TRUE(std::isfinite(Value(gradient[4]))) << mode.name;
    const Floats more(term.size(), 1.0f);
    AddToGradient({.count = 5,
                   .term = more.data(),
                   .gradient = gradient.data(),
                   .sum = {.mode = mode.mode, .companion = companion.data()}},
                  nullptr);
    EXPECT_EQ(Value(gradient[1]), kInfinity) << mode.name;
    EXPECT_TRUE(std::isnan(Value(gradient[0]))) << mode.name;
  }
}

// Invariant kernels-3.
TEST(GradientSumTest, PartsAndThreadsGiveTheSameBits) {
  const Floats term = Normal(100003, 1);
  for (const Mode& mode : kModes) {
    const GradientSum sum{.mode = mode.mode, .key = {1, 2}, .number = 8};
    const State whole = After(sum, term, true);
    SetNumThreads(3);
    EXPECT_EQ(After(sum, term, true), whole) << mode.name;
    SetNumThreads(1);
    for (const int64_t cut : {1, 5, 4096, 77777}) {
      EXPECT_EQ(After(sum, term, true, Half(1.5f), cut), whole) << mode.name << " cut at " << cut;
    }
  }
}

TEST(GradientSumTest, DrawsFollowKeyStepBinPartAndElement) {
  const Floats term = Normal(256, 1, 1e-3f);
  const uint32_t one = 1, two = 2;
  const GradientSum sum{
      .mode = GradientSumMode::kStochastic, .key = {5, 6}, .step = &one, .bin = &one};
  const Halves drawn = After(sum, term, true).gradient;
  const auto other = [&](const auto& change) {
    GradientSum changed = sum;
    change(changed);
    return After(changed, term, true).gradient;
  };
  EXPECT_EQ(other([](GradientSum&) {}), drawn);
  EXPECT_NE(other([](GradientSum& s) { s.key[1] = 7; }), drawn);
  EXPECT_NE(other([&](GradientSum& s) { s.step = &two; }), drawn);
  EXPECT_NE(other([&](GradientSum& s) { s.bin = &two; }), drawn);
  EXPECT_NE(other([](GradientSum& s) { s.part = 1; }), drawn);
  EXPECT_NE(other([](GradientSum& s) { s.number = 8; }), drawn);
  EXPECT_NE(other([](GradientSum& s) { s.number = int64_t{1} << 35; }), drawn);
}

// Rows of other ranges of a product, of small integers: every sum of them is exact.
class SummedProductTest : public testing::Test {
 protected:
  static constexpr int64_t kM = 150, kN = 7, kK = 5;

  SummedProductTest() : a_(kK * kM), b_(kK * kN) {
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<float>(i % 5) - 2;
  }

  SummedProductArgs Args(Floats* term, Halves* c) const {
    return {.product = {.spec = {.output_dtype = DType::kBFloat16, .transpose_a = true},
                        .m = kM,
                        .n = kN,
                        .k = kK,
                        .alpha = 0.5f,
                        .a = a_.data(),
                        .lda = kM,
                        .b = b_.data(),
                        .ldb = kN,
                        .beta = 1.0f,
                        .c = c->data(),
                        .ldc = kN},
            .sum = {.mode = GradientSumMode::kStochastic, .key = {1, 2}},
            .term = {term->data(), static_cast<int64_t>(4 * term->size())}};
  }

  Floats a_, b_;
};

TEST_F(SummedProductTest, RangesOfRowsGiveTheSameBits) {
  Halves whole(kM * kN, Half(300.0f));
  Floats all(kM * kN);
  SummedProduct(Args(&all, &whole), nullptr);
  for (int64_t j = 0; j < kN; ++j) {
    double want = 300;
    for (int64_t k = 0; k < kK; ++k) want += 0.5 * a_[k * kM] * b_[k * kN + j];
    EXPECT_NEAR(Value(whole[Size(j)]), want, 2 * kRounding * std::abs(want));
  }
  for (const int64_t rows : {1, 63, 64, 100, 149}) {
    Halves c(kM * kN, Half(300.0f));
    Floats term(Size(rows * kN + 3));
    SummedProduct(Args(&term, &c), nullptr);
    EXPECT_EQ(c, whole) << rows;
  }
}

TEST_F(SummedProductTest, RefusesWhatItCannotAdd) {
  Halves c(kM * kN);
  Floats term(kN);
  SummedProductArgs args = Args(&term, &c);
  args.term.bytes = 4 * kN - 1;
  EXPECT_THROW(SummedProduct(args, nullptr), std::invalid_argument);
  args = Args(&term, &c);
  args.product.ldc = kN + 1;
  EXPECT_THROW(SummedProduct(args, nullptr), std::invalid_argument);
  args = Args(&term, &c);
  args.product.beta = 0.5f;
  EXPECT_THROW(SummedProduct(args, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace gradient_sum_test
}  // namespace coxswain::kernels
