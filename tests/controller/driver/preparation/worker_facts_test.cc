#include "controller/driver/preparation/worker_facts.h"

#include <gtest/gtest.h>

#include "controller/scheduler/registry.h"

namespace coxswain::driver {
namespace {

scheduler::Worker Worker(const char* device, uint64_t memory, int threads, int capability) {
  scheduler::Worker worker;
  worker.hello.mutable_build()->set_device(device);
  worker.hello.set_memory_bytes(memory);
  worker.hello.set_threads(threads);
  worker.hello.set_compute_capability(capability);
  return worker;
}

TEST(WorkerFactsTest, TheLeastOfWhatIsKnown) {
  const WorkerFacts none = LeastOf({});
  EXPECT_EQ(none.memory_bytes, 0u);
  EXPECT_EQ(none.threads, 0);
  EXPECT_EQ(none.host_bytes, 0u);
  EXPECT_EQ(none.compute_capability, 0);
  scheduler::Worker small = Worker("cuda", 60, 16, 0);
  small.hello.set_host_memory_bytes(500);
  const WorkerFacts facts = LeastOf({Worker("cuda", 0, 8, 90), Worker("cuda", 70, 4, 80), small});
  EXPECT_EQ(facts.host_bytes, 500u);
  EXPECT_EQ(facts.memory_bytes, 60u);
  EXPECT_EQ(facts.threads, 4);
  EXPECT_EQ(facts.compute_capability, 80);
}

scheduler::Worker OnGpu(const char* name, double products = 0, double copies = 0) {
  scheduler::Worker worker = Worker("cuda", 0, 0, 90);
  worker.hello.set_device_name(name);
  worker.hello.set_product_flops_per_second(products);
  worker.hello.set_copy_bytes_per_second(copies);
  return worker;
}

TEST(WorkerFactsTest, RatesAreThoseOfTheSlowestGpu) {
  EXPECT_EQ(LeastOf({OnGpu("NVIDIA H200")}).gpu.rates, GpuOf("NVIDIA H200").rates);
  const scheduler::Worker probed = OnGpu("NVIDIA L40S", 300e12, 5e12);
  for (const auto& both :
       {std::vector{OnGpu("NVIDIA H200"), probed}, std::vector{probed, OnGpu("NVIDIA H200")}}) {
    const Gpu slowest = LeastOf(both).gpu;
    EXPECT_EQ(slowest.name, "L40S");
    EXPECT_TRUE(slowest.probed);
    EXPECT_EQ(slowest.rates, (GpuRates{270e12, 4.28e12}));
    EXPECT_EQ(slowest.peak_flops_per_second, 362.05e12);
  }
}

TEST(WorkerFactsTest, OneGpuWithoutRatesLeavesNone) {
  const scheduler::Worker unknown = OnGpu("NVIDIA L40S"), known = OnGpu("NVIDIA H200");
  for (const auto& both : {std::vector{known, unknown}, std::vector{unknown, known}}) {
    EXPECT_EQ(LeastOf(both).gpu.name, "L40S");
    EXPECT_FALSE(LeastOf(both).gpu.rates);
  }
  EXPECT_EQ(LeastOf({Worker("cpu", 1, 1, 0)}).gpu.name, "");
}

TEST(WorkerFactsTest, NeighboursShareAHost) {
  std::vector<scheduler::Worker> gang(5);
  for (size_t rank = 0; rank < gang.size(); ++rank) {
    gang[rank].hello.set_host(rank < 3 ? "a" : "b");
  }
  EXPECT_EQ(RanksOfHosts(gang), (std::vector<int32_t>{3, 2}));
  EXPECT_TRUE(RanksOfHosts({}).empty());
}

TEST(WorkerFactsTest, LivingWorkersOfAKind) {
  scheduler::Worker lost = Worker("cpu", 1, 1, 0);
  lost.status.phase = state::WorkerPhase::kLost;
  const auto living =
      LivingWorkers({lost, Worker("cpu", 2, 1, 0), Worker("cuda", 3, 1, 90)}, "cpu");
  ASSERT_EQ(living.size(), 1u);
  EXPECT_EQ(living[0].hello.memory_bytes(), 2u);
}

}  // namespace
}  // namespace coxswain::driver
