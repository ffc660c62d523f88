#include <cmath>

#include <gtest/gtest.h>

#include "controller/data/sources/sampling.h"
#include "tests/common/config/default_spec.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::data {
namespace {

TEST(SamplingTest, WholeWeightsGiveThatManyCopies) {
  for (int64_t index = 0; index < 100; ++index) {
    EXPECT_EQ(CopiesOf(1, {0, index}, 1.0), 1);
    EXPECT_EQ(CopiesOf(1, {0, index}, 3.0), 3);
    EXPECT_EQ(CopiesOf(1, {0, index}, 0.0), 0);
  }
}

// The mean of n Bernoulli draws has deviation sqrt(p(1-p)/n); 5 of them.
TEST(SamplingTest, FractionalWeightsAverageOut) {
  const int n = 100000;
  int64_t copies = 0;
  for (int64_t index = 0; index < n; ++index) copies += CopiesOf(7, {2, index}, 2.3);
  EXPECT_NEAR(static_cast<double>(copies) / n, 2.3, 5 * std::sqrt(0.3 * 0.7 / n));
}

TEST(SamplingTest, DrawsDependOnSeedSourceAndIndexAlone) {
  EXPECT_EQ(HoldBackDraw(1, {2, 3}), HoldBackDraw(1, {2, 3}));
  EXPECT_NE(HoldBackDraw(1, {2, 3}), HoldBackDraw(2, {2, 3}));
  EXPECT_NE(HoldBackDraw(1, {2, 3}), HoldBackDraw(1, {3, 2}));
  EXPECT_NE(HoldBackDraw(1, {2, 3}), HoldBackDraw(1, {2, int64_t{3} << 32}));
}

class ValSplitTest : public testing::Test {
 protected:
  ValSplitTest() {
    for (int source = 0; source < 2; ++source) {
      std::string lines;
      for (int i = 0; i < kRecords; ++i) lines += "{}\n";
      config::DatasetSpec dataset = config::DefaultDataset();
      dataset.path = scratch_.Write("data" + std::to_string(source), lines);
      job_.datasets.push_back(dataset);
    }
  }
  int64_t CountHeldBack(double val_set_size) {
    job_.val_set_size = val_set_size;
    auto split = ValSplit::Create(job_);
    EXPECT_TRUE(split.ok()) << split.status();
    int64_t count = 0;
    for (int32_t source = 0; source < 2; ++source) {
      for (int64_t index = 0; index < kRecords; ++index) count += split->HoldsBack({source, index});
    }
    return count;
  }

  static constexpr int kRecords = 500;
  support::ScratchFolder scratch_;
  config::JobSpec job_ = config::DefaultSpec();
};

TEST_F(ValSplitTest, ACountHoldsBackExactlyThatMany) {
  for (int count : {1, 2, 17, 500, 999}) EXPECT_EQ(CountHeldBack(count), count);
  EXPECT_EQ(CountHeldBack(0), 0);
}

TEST_F(ValSplitTest, AFractionHoldsBackAboutThatShare) {
  EXPECT_NEAR(static_cast<double>(CountHeldBack(0.2)), 200, 5 * std::sqrt(1000 * 0.2 * 0.8));
}

TEST_F(ValSplitTest, RefusesToHoldBackEverything) {
  job_.val_set_size = 1000;
  EXPECT_EQ(ValSplit::Create(job_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ValSplitTest, StopsCountingWhenItIsCancelled) {
  job_.val_set_size = 17;
  EXPECT_EQ(ValSplit::Create(job_, [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace

}  // namespace coxswain::data
