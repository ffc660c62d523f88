#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "controller/data/packing/order.h"

namespace coxswain::data {
namespace {

std::vector<int32_t> Lengths(size_t n, int32_t longest) {
  std::mt19937 random(3);
  std::vector<int32_t> lengths(n);
  for (int32_t& length : lengths) length = 1 + static_cast<int32_t>(random() % longest);
  return lengths;
}

std::vector<int32_t> Sorted(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return lengths[a] > lengths[b]; });
  return order;
}

std::vector<int32_t> AsTheyCome(size_t n) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(DecreasingOrderTest, SortsAllWhereTheBoundStopsNoBin) {
  const auto lengths = Lengths(2000, 300);
  EXPECT_EQ(DecreasingOrder(lengths, {300, 300}), Sorted(lengths));
  EXPECT_EQ(DecreasingOrder(lengths, {300, int64_t{1} << 20}), Sorted(lengths));
}

TEST(DecreasingOrderTest, SortsNothingWhereEveryBinEndsByTheBound) {
  const auto lengths = Lengths(2000, 300);
  EXPECT_EQ(DecreasingOrder(lengths, {2048, 4}), AsTheyCome(lengths.size()));
  EXPECT_EQ(DecreasingOrder({}, {2048, 4}), AsTheyCome(0));
}

// Nine documents of 1 fill no bin of 100. Of those of 1 and 40 together the mean is 33.5 and the
// variance 211.25: 9 * 33.5 - 2 sqrt(9 * 211.25) = 214.3, so that this end needs none of 100.
TEST(DecreasingOrderTest, SortsAsFarAsThoseLeftFillBins) {
  const std::vector<int32_t> lengths = {40, 1, 40, 40, 100, 40, 40, 40, 40, 1,  40,  40, 40,
                                        40, 1, 40, 40, 40,  1,  40, 40, 40, 40, 100, 40, 40};
  auto expected = AsTheyCome(lengths.size());
  std::erase(expected, 4);
  std::erase(expected, 23);
  expected.insert(expected.begin(), {4, 23});
  EXPECT_EQ(DecreasingOrder(lengths, {100, 9}), expected);
}

// Of 1 and 40 as above: 4 * 33.5 is above 100 by less than two deviations, 58.1; 5 * 33.5 by more
// than theirs, 65.
TEST(DecreasingOrderTest, CountsTwoDeviations) {
  std::vector<int32_t> lengths(20, 40);
  lengths.insert(lengths.end(), 4, 1);
  lengths.insert(lengths.begin() + 7, 100);
  EXPECT_EQ(DecreasingOrder(lengths, {100, 4}).front(), 0);
  EXPECT_EQ(DecreasingOrder(lengths, {100, 5}).front(), 7);
}

// The squares of a few thousand such documents are above 64 bits, and so is their variance's.
TEST(DecreasingOrderTest, ComputesWithTheLongestDocuments) {
  constexpr int32_t kLongest = 1 << 26;
  std::vector<int32_t> lengths(9000, kLongest / 2 + 1);
  std::fill(lengths.begin() + 10, lengths.begin() + 3000, kLongest / 4 - 1);
  lengths[7000] = kLongest;
  EXPECT_EQ(DecreasingOrder(lengths, {kLongest, 4}).front(), 7000);
  EXPECT_EQ(DecreasingOrder(lengths, {kLongest, 3}).front(), 0);
}

}  // namespace

}  // namespace coxswain::data
