#include "controller/transport/fan_out.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace coxswain {
namespace {

TEST(FanOutTest, CallsEachIndexOnceAndReturnsWhenAllHave) {
  for (const int threads : {0, 1, 3}) {
    FanOut fan_out(threads);
    for (const int count : {0, 1, 33, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      for (int round = 1; round <= 20; ++round) {
        fan_out.ForAll(count, [&](int begin, int end) {
          for (int i = begin; i < end; ++i) ++calls[static_cast<size_t>(i)];
        });
        for (const auto& call : calls) ASSERT_EQ(call, round);
      }
    }
  }
}

}  // namespace
}  // namespace coxswain
