#include "controller/data/pipeline/ordered_pipeline.h"

#include <atomic>

#include <gtest/gtest.h>

namespace coxswain::data {
namespace {

using Pipeline = OrderedPipeline<int, int>;

Pipeline::Stages CountTo(int n, int threads, std::vector<int>* consumed) {
  Pipeline::Stages stages;
  auto next = std::make_shared<int>(0);
  stages.produce = [next, n](int* item) -> absl::StatusOr<bool> {
    *item = *next;
    return (*next)++ < n;
  };
  stages.make_map = [] {
    return [](int item) {
      if (item % 3 == 0) std::this_thread::yield();
      return item * 2;
    };
  };
  stages.consume = [consumed](int item) {
    consumed->push_back(item);
    return absl::OkStatus();
  };
  stages.threads = threads;
  stages.in_flight = 2 * threads;
  return stages;
}

TEST(OrderedPipelineTest, ConsumesEverythingInOrder) {
  for (int n : {0, 1, 1000}) {
    for (int threads : {1, 4}) {
      std::vector<int> consumed, expected;
      for (int i = 0; i < n; ++i) expected.push_back(2 * i);
      EXPECT_TRUE(Pipeline::Run(CountTo(n, threads, &consumed)).ok());
      EXPECT_EQ(consumed, expected);
    }
  }
}

TEST(OrderedPipelineTest, NeverHoldsMoreThanInFlight) {
  std::vector<int> consumed;
  auto stages = CountTo(500, 4, &consumed);
  stages.in_flight = 3;
  std::atomic<int> held = 0, most = 0;
  const auto produce = stages.produce;
  stages.produce = [&, produce](int* item) {
    const int now = ++held;
    if (now > most) most = now;
    return produce(item);
  };
  const auto consume = stages.consume;
  stages.consume = [&, consume](int item) {
    --held;
    return consume(item);
  };
  EXPECT_TRUE(Pipeline::Run(stages).ok());
  EXPECT_EQ(consumed.size(), 500u);
  EXPECT_LE(most, 4);  // three in flight and the one the consumer has just let go of
}

TEST(OrderedPipelineTest, AnErrorOfTheProducerComesAfterWhatItProduced) {
  std::vector<int> consumed;
  auto stages = CountTo(1000, 3, &consumed);
  const auto produce = stages.produce;
  stages.produce = [&](int* item) -> absl::StatusOr<bool> {
    auto more = produce(item);
    if (*item == 20) return absl::DataLossError("cut");
    return more;
  };
  EXPECT_EQ(Pipeline::Run(stages).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(consumed.size(), 20u);
}

// One that left a thread would end the process.
TEST(OrderedPipelineTest, AnExceptionOfAnyStageEndsTheRun) {
  const auto throws = [](auto&&...) -> int { throw std::bad_alloc(); };
  const absl::Status expected = absl::InternalError("no memory was left for it");
  std::vector<int> consumed;
  auto stages = CountTo(1 << 30, 3, &consumed);
  stages.make_map = [&] { return throws; };
  EXPECT_EQ(Pipeline::Run(stages), expected);
  stages = CountTo(1 << 30, 3, &consumed);
  stages.produce = [&](int*) -> absl::StatusOr<bool> { return throws() > 0; };
  EXPECT_EQ(Pipeline::Run(stages), expected);
  stages = CountTo(1 << 30, 3, &consumed);
  stages.consume = [&](int) -> absl::Status { return throws() > 0 ? expected : expected; };
  EXPECT_EQ(Pipeline::Run(stages), expected);
}

TEST(OrderedPipelineTest, AnErrorOfTheConsumerStopsTheRun) {
  std::vector<int> consumed;
  auto stages = CountTo(1 << 30, 3, &consumed);
  const auto consume = stages.consume;
  stages.consume = [&](int item) {
    return item == 40 ? absl::CancelledError("stop") : consume(item);
  };
  EXPECT_EQ(Pipeline::Run(stages).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(consumed.size(), 20u);
}

}  // namespace
}  // namespace coxswain::data
