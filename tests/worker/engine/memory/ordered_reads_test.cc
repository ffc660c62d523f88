#include "worker/engine/memory/ordered_reads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

namespace coxswain::engine {
namespace ordered_reads_test {
namespace {

OrderedRead Number(int64_t i, std::string* used) {
  return {
      .bytes = 1 + i % 3,
      .read =
          [i](char* out) {
            std::memset(out, static_cast<char>('a' + i % 26), static_cast<size_t>(1 + i % 3));
            return absl::OkStatus();
          },
      .use = [i, used](const char* data) { used->append(data, static_cast<size_t>(1 + i % 3)); }};
}

TEST(OrderedReadsTest, AreUsedInOrderWhateverThreadsReadThem) {
  for (const int threads : {1, 2, 7}) {
    std::string used, expected;
    std::vector<OrderedRead> reads;
    for (int64_t i = 0; i < 500; ++i) {
      reads.push_back(Number(i, &used));
      expected.append(static_cast<size_t>(1 + i % 3), static_cast<char>('a' + i % 26));
    }
    ASSERT_TRUE(RunOrderedReads(reads, threads).ok());
    EXPECT_EQ(used, expected) << threads;
  }
  EXPECT_TRUE(RunOrderedReads({}, 3).ok());
}

TEST(OrderedReadsTest, AnErrorEndsThemAndNothingBehindItIsUsed) {
  std::string used;
  std::vector<OrderedRead> reads;
  for (int64_t i = 0; i < 100; ++i) reads.push_back(Number(i, &used));
  reads[10].read = [](char*) { return absl::DataLossError("the tenth"); };
  EXPECT_EQ(RunOrderedReads(reads, 3).message(), "the tenth");
  EXPECT_LE(used.size(), 20u);
}

TEST(OrderedReadsTest, FewAreAheadOfTheUse) {
  std::string used;
  std::atomic<int64_t> ahead{0}, most{0};
  std::vector<OrderedRead> reads;
  for (int64_t i = 0; i < 100; ++i) {
    OrderedRead read = Number(i, &used);
    read.read = [&, fill = read.read](char* out) {
      most = std::max<int64_t>(most, ++ahead);
      return fill(out);
    };
    read.use = [&](const char*) { --ahead; };
    reads.push_back(read);
  }
  ASSERT_TRUE(RunOrderedReads(reads, 2).ok());
  EXPECT_LE(most, 4 + 1);  // a read may begin before the use that freed its slot is counted
}

TEST(OrderedReadsTest, WhatAUseThrowsIsThrownOn) {
  std::string used;
  std::vector<OrderedRead> reads;
  for (int64_t i = 0; i < 100; ++i) reads.push_back(Number(i, &used));
  reads[3].use = [](const char*) { throw std::runtime_error("device"); };
  EXPECT_THROW((void)RunOrderedReads(reads, 3), std::runtime_error);
}

}  // namespace
}  // namespace ordered_reads_test
}  // namespace coxswain::engine
