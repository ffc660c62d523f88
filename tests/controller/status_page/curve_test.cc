#include "controller/status_page/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace coxswain::status_page {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Curve LossCurve(Series line) {
  return {.name = "loss", .title = "Loss", .line = std::move(line), .line_name = "training"};
}

TEST(CurveTest, TicksAreRoundEvenAndEnclose) {
  EXPECT_EQ(RoundTicks(0, 10), (std::vector<double>{0, 5, 10}));
  EXPECT_EQ(RoundTicks(2.6, 4.3), (std::vector<double>{2.5, 3.0, 3.5, 4.0, 4.5}));
  for (const auto& [lo, hi] : std::vector<std::pair<double, double>>{
           {1e-9, 3e-9}, {-2, 7}, {0, 123456}, {5, 5}, {0, 0}, {1e8, 1e8 + 1}}) {
    const std::vector<double> ticks = RoundTicks(lo, hi);
    EXPECT_LE(ticks.front(), lo);
    EXPECT_GE(ticks.back(), hi * (1 - 1e-12));
    EXPECT_GE(ticks.size(), 2u);
    EXPECT_LE(ticks.size(), 7u) << lo << " " << hi;
  }
}

TEST(CurveTest, TickTextHasTheDigitsThatTellNeighboursApart) {
  EXPECT_EQ(TickText(2.5, 0.5), "2.5");
  EXPECT_EQ(TickText(12000, 2000), "12,000");
  EXPECT_EQ(TickText(0.00015, 0.00005), "0.00015");
  EXPECT_EQ(TickText(0, 0.5), "0");
  EXPECT_EQ(TickText(2e-9, 1e-9), "2e-09");
}

TEST(CurveTest, SpansTheBoxFromFirstToLastStep) {
  const auto fields = CurveFields(LossCurve({{1, 4.0}, {2, 3.0}, {3, 2.0}}), "j", 100);
  EXPECT_EQ(fields["PLOT"]["LINE"], "M0.0 0.00L500.0 50.00L1000.0 100.00");
  EXPECT_EQ(fields["PLOT"]["FROM"], "1");
  EXPECT_EQ(fields["PLOT"]["TO"], "3");
  EXPECT_EQ(fields["PLOT"]["TICKS"][0]["TEXT"], "4.0");  // the top one first
  EXPECT_EQ(fields["SPOKEN"], "Loss: training 4.000 at step 1, 2.000 at step 3");
}

TEST(CurveTest, AValueThatIsNotFiniteLeavesAGap) {
  const auto fields =
      CurveFields(LossCurve({{1, 4.0}, {2, kNan}, {3, 3.0}, {4, 2.0}, {5, INFINITY}}), "j", 100);
  EXPECT_EQ(fields["PLOT"]["LINE"], "M0.0 0.00M666.7 50.00L1000.0 100.00");
}

TEST(CurveTest, EmptyAndSinglePoint) {
  EXPECT_TRUE(CurveFields(LossCurve({}), "j", 100).contains("NO_POINTS"));
  EXPECT_TRUE(CurveFields(LossCurve({{1, kNan}}), "j", 100).contains("NO_POINTS"));
  EXPECT_EQ(CurveFields(LossCurve({{7, 2.0}}), "j", 100)["PLOT"]["LINE"], "M500.0 50.00h0");
}

TEST(CurveTest, DrawsAtMostSoManyPointsAndAlwaysTheLast) {
  Series line;
  for (int64_t step = 1; step <= 1000; ++step) line.emplace_back(step, step);
  const std::string path = CurveFields(LossCurve(line), "j", 100)["PLOT"]["LINE"];
  EXPECT_LE(std::count(path.begin(), path.end(), 'L'), 100);
  EXPECT_NE(path.find("L1000.0 0.00"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::status_page
