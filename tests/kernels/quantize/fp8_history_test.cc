// Both libraries: this file is of kernels_test and of gpu_tests.
#include "kernels/quantize/fp8_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/quantized_memory.h"

namespace coxswain::kernels {
namespace fp8_history_test {
namespace {

constexpr int64_t kRanks = 3, kOperands = 301, kStride = 304;
constexpr float kNotRead = 1e30f;

size_t Size(int64_t i) { return static_cast<size_t>(i); }

// [kRanks, kStride], with something else behind each rank's operands.
std::vector<float> Observed(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.0f, 10.0f);
  std::vector<float> observed(Size(kRanks * kStride), kNotRead);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    for (int64_t i = 0; i < kOperands; ++i) observed[Size(rank * kStride + i)] = uniform(random);
  }
  return observed;
}

NormSums Judged(const std::vector<float>& observed) {
  const OnDevice<float> on_device(observed);
  const OnDevice<NormSums> sums(std::vector<NormSums>{{.sum_squares = 4.0, .nonfinite = 2.0}});
  Fp8JudgeObserved({.ranks = kRanks,
                    .operands = kOperands,
                    .stride = kStride,
                    .observed = on_device.data(),
                    .sums = sums.data()},
                   nullptr);
  Synchronize(nullptr);
  return sums.Read()[0];
}

// A history on the device beside what it should be.
struct Histories {
  std::vector<float> expected_history = std::vector<float>(Size(kOperands * kFp8History), 0.0f);
  const OnDevice<float> history{expected_history};
  const OnDevice<float> expected{kOperands};

  // Returns what is left of `observed`.
  std::vector<float> Move(int64_t updates, const std::vector<float>& observed, int32_t skip = 0) {
    const OnDevice<float> on_device(observed);
    const OnDevice<int64_t> count(std::vector<int64_t>{updates});
    const OnDevice<int32_t> skips(std::vector<int32_t>{skip});
    Fp8MoveHistory({.ranks = kRanks,
                    .operands = kOperands,
                    .stride = kStride,
                    .observed = on_device.data(),
                    .updates = count.data(),
                    .skip = skips.data(),
                    .history = history.data(),
                    .expected = expected.data()},
                   nullptr);
    Synchronize(nullptr);
    for (int64_t i = 0; skip == 0 && i < kOperands; ++i) {
      float& slot = expected_history[Size(i * kFp8History + updates % kFp8History)] = 0.0f;
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        slot = std::max(slot, observed[Size(rank * kStride + i)]);
      }
    }
    return on_device.Read();
  }

  void ExpectAsShould(const std::string& when) const {
    EXPECT_EQ(history.Read(), expected_history) << when;
    std::vector<float> twice;
    for (int64_t i = 0; i < kOperands; ++i) {
      const auto first = expected_history.begin() + i * kFp8History;
      twice.push_back(2.0f * *std::max_element(first, first + kFp8History));
    }
    EXPECT_EQ(expected.Read(), twice) << when;
  }
};

TEST(Fp8HistoryTest, FiniteObservationsLeaveTheSumsAlone) {
  const NormSums sums = Judged(Observed(1));
  EXPECT_EQ(sums.sum_squares, 4.0);
  EXPECT_EQ(sums.nonfinite, 2.0);
}

TEST(Fp8HistoryTest, CountsWhatIsNotFiniteOfAllRanks) {
  std::vector<float> observed = Observed(1);
  observed[Size(2 * kStride + kOperands - 1)] = HUGE_VALF;
  observed[Size(kStride)] = std::nanf("");
  observed[Size(kOperands)] = std::nanf("");  // behind the last of rank 0
  const NormSums sums = Judged(observed);
  EXPECT_EQ(sums.nonfinite, 4.0);
  EXPECT_TRUE(std::isnan(sums.sum_squares));
}

TEST(Fp8HistoryTest, ExpectsTwiceTheLargestOfTheLast32Updates) {
  Histories histories;
  for (int64_t update = 0; update < 70; ++update) {
    std::vector<float> observed = Observed(static_cast<unsigned>(update));
    // The largest of all in the first update: it must be gone by the 33rd.
    if (update == 0) observed[Size(kStride + 5)] = 1000.0f;
    const std::vector<float> left = histories.Move(update, observed);
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_EQ(left[Size(rank * kStride + kOperands - 1)], 0.0f);
      ASSERT_EQ(left[Size(rank * kStride + kOperands)], kNotRead);
    }
    histories.ExpectAsShould("update " + std::to_string(update));
    EXPECT_EQ(histories.expected.Read()[5] == 2000.0f, update < kFp8History) << update;
  }
}

// What was observed is forgotten, that of a rank with NaN too.
TEST(Fp8HistoryTest, ASkippedUpdateLeavesTheHistory) {
  Histories histories;
  histories.Move(0, Observed(1));
  std::vector<float> observed = Observed(2);
  observed[7] = std::nanf("");
  const std::vector<float> left = histories.Move(1, observed, /*skip=*/1);
  EXPECT_EQ(left[7], 0.0f);
  EXPECT_EQ(left[8], 0.0f);
  histories.ExpectAsShould("skipped");
}

TEST(Fp8HistoryTest, ExpectsNothingOfNothingAndNeverInfinity) {
  std::vector<float> values(3 * kFp8History, 0.0f);
  values[kFp8History + 31] = std::numeric_limits<float>::max();
  values[2 * kFp8History] = 0x1p-149f;
  const OnDevice<float> history(values);
  const OnDevice<float> expected(3);
  Fp8MoveHistory({.operands = 3, .history = history.data(), .expected = expected.data()}, nullptr);
  Synchronize(nullptr);
  EXPECT_EQ(expected.Read(),
            (std::vector<float>{0.0f, std::numeric_limits<float>::max(), 0x1p-148f}));
  EXPECT_EQ(history.Read(), values);
  Fp8MoveHistory({}, nullptr);
  Fp8JudgeObserved({}, nullptr);
  EXPECT_THROW(Fp8MoveHistory({.operands = -1}, nullptr), std::invalid_argument);
  EXPECT_THROW(Fp8JudgeObserved({.ranks = -1}, nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace fp8_history_test
}  // namespace coxswain::kernels
