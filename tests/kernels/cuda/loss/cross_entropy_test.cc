#include "kernels/loss/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/cuda/gpu_testing.h"
#include "tests/reference/cross_entropy.h"

namespace coxswain::kernels {
namespace gpu_cross_entropy_test {
namespace {

constexpr double kFloatUnit = 0x1p-24;

struct Result {
  Floats loss, nll, logits;
};

// `offset` elements lie between the start of the memory and the logits; rows are `stride` apart, 0:
// side by side. What lies between them is NaN before, and must be 0 behind a gradient.
Result Compute(const CrossEntropySpec& spec, const Floats& logits,
               const std::vector<int32_t>& targets, const float* scale, int64_t offset = 0,
               int64_t stride = 0) {
  const int64_t ld = stride == 0 ? spec.vocab : stride;
  const Floats spread = SpreadRows(logits, spec.vocab, ld, std::numeric_limits<float>::quiet_NaN());
  Floats shifted(Size(offset), 0.0f);
  shifted.insert(shifted.end(), spread.begin(), spread.end());
  const int64_t rows = static_cast<int64_t>(targets.size());
  const DeviceTensor z(spec.dtype, shifted);
  const DeviceTensor loss(DType::kFloat32, rows), nll(DType::kFloat32, rows);
  const DeviceValues<int32_t> device_targets(targets);
  const DeviceValues<float> device_scale({scale == nullptr ? 0.0f : *scale});
  CrossEntropy({.spec = spec,
                .rows = rows,
                .logits = static_cast<char*>(z.data()) + offset * DTypeBytes(spec.dtype),
                .ld = stride,
                .targets = device_targets.data(),
                .gradient_scale = scale == nullptr ? nullptr : device_scale.data(),
                .loss = loss.floats(),
                .nll = nll.floats()},
               TestStream());
  const Floats all = z.Read();
  if (scale != nullptr) {  // the same in another place
    const DeviceTensor kept(spec.dtype, shifted), elsewhere(spec.dtype, shifted);
    const int64_t bytes = offset * DTypeBytes(spec.dtype);
    CrossEntropy({.spec = spec,
                  .rows = rows,
                  .logits = static_cast<char*>(kept.data()) + bytes,
                  .gradient = static_cast<char*>(elsewhere.data()) + bytes,
                  .ld = stride,
                  .targets = device_targets.data(),
                  .gradient_scale = device_scale.data(),
                  .loss = loss.floats()},
                 TestStream());
    EXPECT_TRUE(SameBits(elsewhere.Read(), all) && SameBits(kept.Read(), shifted));
  }
  Result result{loss.Read(), nll.Read(), {}};
  for (size_t i = 0; i < spread.size(); ++i) {
    const float value = all[Size(offset) + i];
    if (i % Size(ld) < Size(spec.vocab)) {
      result.logits.push_back(value);
    } else if (scale == nullptr ? !std::isnan(value) : value != 0.0f) {
      ADD_FAILURE() << "element " << i % Size(ld) << " of " << spec.vocab << " is " << value;
      break;
    }
  }
  return result;
}

// With u = 2^-24: an exponential is within 4 u of ex2 plus u |z - max| of its argument, whose share
// in a sum is below u. A thread adds at most V / 512 of them (V / 4096 in a cluster of 8), then 5 +
// 5
// + 3 pairs of partials, which three factors of 7 u scaled; log S adds 8 u: S and so lse are off by
// less than s = (140 + V / 512) u. The constant log2 e costs 1.4e-8 times the entropy, below 3 u. A
// capped logit is off by 11 k u at most, but by less than 4 k u in the mean over a row.
void Check(const CrossEntropySpec& spec, const Floats& logits, const std::vector<int32_t>& targets,
           int64_t offset = 0, int64_t stride = 0) {
  const float scale = 0.125f;
  const Result got = Compute(spec, logits, targets, &scale, offset, stride);
  const Result again = Compute(spec, logits, targets, &scale, offset, stride);
  const Result lone = Compute(spec, logits, targets, nullptr, offset, stride);
  EXPECT_TRUE(SameBits(again.logits, got.logits) && SameBits(again.loss, got.loss));
  EXPECT_TRUE(SameBits(lone.logits, logits)) << "losses only leave the logits";
  EXPECT_TRUE(SameBits(lone.loss, got.loss) && SameBits(lone.nll, got.nll));
  const Doubles z = Double(logits);
  const reference::CrossEntropyOptions<double> options{spec.label_smoothing, spec.z_loss,
                                                       spec.softcap};
  const double sum_error =
      (140 + static_cast<double>(spec.vocab) / 512 + 8 * spec.softcap) * kFloatUnit;
  Doubles dz(Size(spec.vocab));
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == kIgnoreTarget) continue;
    const double* row = &z[i * dz.size()];
    const auto want = reference::CrossEntropy(options, row, spec.vocab, targets[i]);
    const double z_slope = 1 + 2 * spec.z_loss * std::abs(want.lse);
    double size = 0;
    for (size_t v = 0; v < dz.size(); ++v)
      size += std::abs(row[v]) / static_cast<double>(dz.size());
    const double mean_error = spec.label_smoothing * size * sum_error;
    ASSERT_NEAR(got.nll[i], want.nll, sum_error + 2 * kFloatUnit * std::abs(want.nll));
    ASSERT_NEAR(got.loss[i], want.loss,
                sum_error * z_slope + mean_error + 2 * kFloatUnit * std::abs(want.loss));
    reference::CrossEntropyBackward<double>(options, row, spec.vocab, targets[i], scale, dz.data());
    for (size_t v = 0; v < dz.size(); ++v) {
      const double bound =
          2 * sum_error * z_slope * scale + 1.01 * kUnit(spec.dtype) * std::abs(dz[v]);
      ASSERT_NEAR(got.logits[i * dz.size() + v], dz[v], bound)
          << "row " << i << " column " << v << " of " << spec.vocab;
    }
  }
}

class CrossEntropyGpuTest : public testing::TestWithParam<DType> {};

TEST_P(CrossEntropyGpuTest, MatchesReferenceForEveryTailAndOption) {
  for (const int64_t vocab : {1, 2, 5, 7, 8, 9, 15, 16, 17, 97, 1023, 1024, 1025, 4088, 8192}) {
    const Floats logits = Normal(4 * vocab, 1, GetParam(), 3.0f);
    const int32_t last = static_cast<int32_t>(vocab - 1);
    for (const float softcap : {0.0f, 5.0f}) {
      for (const auto& [smoothing, z_loss] :
           {std::pair{0.0f, 0.0f}, {0.1f, 0.0f}, {0.0f, 1e-2f}, {0.3f, 1e-3f}}) {
        Check({.dtype = GetParam(),
               .vocab = vocab,
               .label_smoothing = smoothing,
               .z_loss = z_loss,
               .softcap = softcap},
              logits, {0, last, last / 2, kIgnoreTarget});
      }
    }
  }
}

// Each cluster size with its last and first row length, the longest rows that fit, both kernels;
// Qwen2.5's and Gemma's vocabularies.
TEST_P(CrossEntropyGpuTest, MatchesReferenceForLongRows) {
  for (const int64_t vocab : {9504, 9512, 19008, 19016, 38016, 38024, 76032, 76040, 151936, 152064,
                              152072, 229376, 229384, 262144, 327681, 458752, 458760}) {
    const Floats logits = Normal(3 * vocab, 2, GetParam(), 3.0f);
    const int32_t last = static_cast<int32_t>(vocab - 1);
    Check({.dtype = GetParam(), .vocab = vocab}, logits, {last, kIgnoreTarget, last / 3});
  }
  const Floats logits = Normal(2 * 151936, 3, GetParam(), 3.0f);
  Check({.dtype = GetParam(),
         .vocab = 151936,
         .label_smoothing = 0.1f,
         .z_loss = 1e-4f,
         .softcap = 30.0f},
        logits, {77777, 151935});
}

// More rows than blocks: each is computed like a row alone, ignored ones between them or not.
TEST_P(CrossEntropyGpuTest, ManyRowsAreEachLikeOneAlone) {
  for (const auto& [vocab, rows] :
       {std::pair<int64_t, size_t>{1024, 2003}, {20000, 601}, {70000, 251}, {151936, 151}}) {
    const int32_t last = static_cast<int32_t>(vocab - 1);
    const Floats kinds = Normal(3 * vocab, 5, GetParam(), 3.0f);
    const std::vector<int32_t> kind_targets = {last, kIgnoreTarget, last / 3};
    const CrossEntropySpec spec{.dtype = GetParam(), .vocab = vocab, .z_loss = 1e-4f};
    Floats logits;
    std::vector<int32_t> targets;
    std::vector<size_t> kind(rows);
    for (size_t row = 0; row < rows; ++row) {
      kind[row] = row * row / 7 % 3;
      const auto begin = kinds.begin() + static_cast<int64_t>(kind[row]) * vocab;
      logits.insert(logits.end(), begin, begin + vocab);
      targets.push_back(kind_targets[kind[row]]);
    }
    const float scale = 0.125f;
    for (const float* gradient : {&scale, static_cast<const float*>(nullptr)}) {
      const Result want = Compute(spec, kinds, kind_targets, gradient);
      const Result got = Compute(spec, logits, targets, gradient);
      for (size_t row = 0; row < rows; ++row) {
        ASSERT_EQ(got.loss[row], want.loss[kind[row]]) << "row " << row << " of " << vocab;
        ASSERT_EQ(got.nll[row], want.nll[kind[row]]) << "row " << row << " of " << vocab;
        const auto begin = want.logits.begin() + static_cast<int64_t>(kind[row]) * vocab;
        ASSERT_TRUE(std::equal(begin, begin + vocab,
                               got.logits.begin() + static_cast<int64_t>(row) * vocab))
            << "row " << row << " of " << vocab;
      }
    }
  }
}

// By vectors: every tail of a vector, in one block and in clusters of 2, 4 and 8, with little and
// much between rows; rows too long for them; a vocabulary with added tokens. The last target is in
// the tail.
TEST_P(CrossEntropyGpuTest, RowsApartMatchReference) {
  std::vector<std::pair<int64_t, int64_t>> cases = {
      {1, 8},         {1, 64},          {9503, 9504},    {20001, 20008},
      {38023, 38072}, {128257, 128264}, {458753, 458760}};
  for (int64_t vocab = 1024; vocab < 1032; ++vocab) cases.emplace_back(vocab, 1032);
  for (const auto& [vocab, stride] : cases) {
    const Floats logits = Normal(4 * vocab, 2, GetParam(), 3.0f);
    const int32_t last = static_cast<int32_t>(vocab - 1);
    const std::vector<int32_t> targets = {last, kIgnoreTarget, last / 3, last / 8 * 8};
    Check({.dtype = GetParam(), .vocab = vocab}, logits, targets, 0, stride);
    Check({.dtype = GetParam(),
           .vocab = vocab,
           .label_smoothing = 0.1f,
           .z_loss = 1e-2f,
           .softcap = 5.0f},
          logits, targets, 0, stride);
  }
  Check({.dtype = GetParam(), .vocab = 1000}, Normal(1000, 4, GetParam()), {999}, 3, 1003);
  EXPECT_THROW(CrossEntropy({.spec = {.vocab = 5}, .rows = 1, .ld = 4}, TestStream()),
               std::invalid_argument);
}

TEST_P(CrossEntropyGpuTest, ManyRowsApartAreEachLikeOneAlone) {
  const int64_t vocab = 20001;
  const size_t rows = 601;
  const Floats kind = Normal(vocab, 5, GetParam(), 3.0f);
  Floats logits;
  for (size_t row = 0; row < rows; ++row) logits.insert(logits.end(), kind.begin(), kind.end());
  const CrossEntropySpec spec{.dtype = GetParam(), .vocab = vocab, .label_smoothing = 0.1f};
  const float scale = 0.125f;
  const std::vector<int32_t> targets(rows, 20000);
  const Result want = Compute(spec, kind, {20000}, &scale, 0, 20008);
  const Result got = Compute(spec, logits, targets, &scale, 0, 20008);
  for (size_t row = 0; row < rows; ++row) {
    ASSERT_EQ(got.loss[row], want.loss[0]) << row;
    ASSERT_TRUE(std::equal(want.logits.begin(), want.logits.end(),
                           got.logits.begin() + static_cast<int64_t>(row) * vocab))
        << row;
  }
}

TEST_P(CrossEntropyGpuTest, RowsThatAreNotAligned) {
  for (const int64_t vocab : {64, 1000, 30000}) {
    const Floats logits = Normal(3 * vocab, 4, GetParam(), 2.0f);
    Check({.dtype = GetParam(), .vocab = vocab, .label_smoothing = 0.1f}, logits,
          {0, 63, kIgnoreTarget}, 3);
  }
}

// Invariant kernels-6.
TEST_P(CrossEntropyGpuTest, IgnoredRowsGiveZeroWhateverTheirLogits) {
  for (const int64_t vocab : {5, 4096, 151936, 460000}) {
    const Floats nan(Size(2 * vocab), std::numeric_limits<float>::quiet_NaN());
    const float scale = 1.0f;
    const CrossEntropySpec spec{
        .dtype = GetParam(), .vocab = vocab, .label_smoothing = 0.1f, .z_loss = 1.0f};
    const Result r = Compute(spec, nan, {kIgnoreTarget, kIgnoreTarget}, &scale);
    EXPECT_EQ(r.loss, Floats(2, 0.0f));
    EXPECT_EQ(r.nll, Floats(2, 0.0f));
    EXPECT_EQ(r.logits, Floats(nan.size(), 0.0f));
    EXPECT_TRUE(Compute(spec, {}, {}, &scale).loss.empty());
  }
}

// Invariant kernels-6.
TEST_P(CrossEntropyGpuTest, NanAndForbiddenTokensStayInTheirRow) {
  for (const int64_t vocab : {20, 30001, 151936}) {
    Floats logits = Normal(3 * vocab, 1, GetParam());
    logits[Size(vocab) - 2] = std::numeric_limits<float>::quiet_NaN();
    logits[Size(vocab) + 4] = -std::numeric_limits<float>::infinity();
    const float scale = 1.0f;
    const Result r = Compute({.dtype = GetParam(), .vocab = vocab}, logits, {7, 7, 7}, &scale);
    EXPECT_TRUE(std::isnan(r.loss[0]));
    EXPECT_TRUE(std::isfinite(r.loss[1]) && std::isfinite(r.loss[2]));
    EXPECT_EQ(r.logits[Size(vocab) + 4], 0.0f);
    for (size_t v = 0; v < Size(vocab); ++v) {
      ASSERT_TRUE(std::isnan(r.logits[v]));
      ASSERT_TRUE(std::isfinite(r.logits[Size(vocab) + v]));
    }
  }
}

TEST_P(CrossEntropyGpuTest, CertainTargetKeepsItsSmallGradient) {
  for (const int64_t vocab : {96, 151936}) {
    Floats logits(Size(vocab), -30.0f);
    logits[7] = 0.0f;
    const float scale = 1.0f;
    const Result r = Compute({.dtype = GetParam(), .vocab = vocab}, logits, {7}, &scale);
    const double others = static_cast<double>(vocab - 1) * std::exp(-30.0);
    // ex2 is exact at 0 and S rounds to 1: p_y - 1 is 0 within the rounding of S.
    EXPECT_NEAR(r.logits[7], -others, 8 * kFloatUnit);
    EXPECT_NEAR(r.logits[0] / std::exp(-30.0), 1.0, 140 * kFloatUnit + kUnit(GetParam()));
  }
}

TEST_P(CrossEntropyGpuTest, LogitsOfTenThousand) {
  for (const int64_t vocab : {32, 33, 151936}) {
    const Floats logits = Normal(2 * vocab, 1, GetParam(), 1e4f);
    Check({.dtype = GetParam(), .vocab = vocab}, logits, {3, 9});
    Check({.dtype = GetParam(), .vocab = vocab, .label_smoothing = 0.1f},
          Floats(Size(vocab), Round(1e4f, GetParam())), {3});
  }
}

TEST_P(CrossEntropyGpuTest, TargetOutsideTheVocabularyIsANanLoss) {
  for (const int64_t vocab : {33, 4096, 151936}) {
    const Floats logits = Normal(3 * vocab, 1, GetParam());
    const float scale = 1.0f;
    const Result r = Compute({.dtype = GetParam(), .vocab = vocab}, logits,
                             {-1, static_cast<int32_t>(vocab), 0}, &scale);
    EXPECT_TRUE(std::isnan(r.loss[0]) && std::isnan(r.loss[1]));
    EXPECT_TRUE(std::isfinite(r.loss[2]));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CrossEntropyGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Invariant kernels-2.
TEST(CrossEntropyGpuSizeTest, RowsBehindTwoToThe31Elements) {
  const int64_t vocab = 151936, rows = (int64_t{1} << 31) / vocab + 3;
  const DeviceBytes logits(rows * vocab * 2);
  SetMemory(logits.data(), 0xff, logits.bytes(), TestStream());  // NaN
  std::vector<uint16_t> last(Size(vocab), 0);
  last.back() = BFloat16Bits(10.0f);
  char* last_row = static_cast<char*>(logits.data()) + (rows - 1) * vocab * 2;
  Synchronize(TestStream());
  CopyMemory(last_row, last.data(), vocab * 2, nullptr);
  std::vector<int32_t> targets(Size(rows), kIgnoreTarget);
  targets.back() = static_cast<int32_t>(vocab - 1);
  const DeviceValues<int32_t> device_targets(targets);
  const DeviceValues<float> scale({1.0f});
  const DeviceTensor loss(DType::kFloat32, rows);
  CrossEntropy({.spec = {.dtype = DType::kBFloat16, .vocab = vocab},
                .rows = rows,
                .logits = logits.data(),
                .targets = device_targets.data(),
                .gradient_scale = scale.data(),
                .loss = loss.floats()},
               TestStream());
  const Floats losses = loss.Read();
  EXPECT_EQ(losses[0], 0.0f);
  const double others = static_cast<double>(vocab - 1) * std::exp(-10.0);
  EXPECT_NEAR(losses.back(), std::log1p(others), 200 * kFloatUnit);
  std::vector<uint16_t> gradient(Size(2 * vocab));
  CopyMemory(gradient.data(), last_row - vocab * 2, 4 * vocab, nullptr);
  EXPECT_EQ(gradient[0], 0);
  EXPECT_EQ(gradient[Size(vocab) - 1], 0);
  EXPECT_NEAR(FromBFloat16Bits(gradient.back()), -others / (1 + others), 0x1p-8);
}

TEST(CrossEntropyGpuSupportsTest, RefusesOptionsOutOfRange) {
  EXPECT_FALSE(CrossEntropySupports({.vocab = 0}));
  EXPECT_FALSE(CrossEntropySupports({.vocab = int64_t{1} << 31}));
  EXPECT_FALSE(CrossEntropySupports({.vocab = 5, .label_smoothing = 1.0f}));
  EXPECT_FALSE(CrossEntropySupports({.vocab = 5, .softcap = -1.0f}));
  EXPECT_THROW(CrossEntropy({.spec = {.vocab = 5}, .rows = -1}, TestStream()),
               std::invalid_argument);
}

}  // namespace
}  // namespace gpu_cross_entropy_test
}  // namespace coxswain::kernels
