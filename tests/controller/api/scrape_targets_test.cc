#include "controller/api/scrape_targets.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace coxswain::api {
namespace {

scheduler::Worker MakeWorker(const char* id, const char* address, const char* metrics) {
  scheduler::Worker worker;
  worker.target.id = id;
  worker.hello.set_address(address);
  worker.hello.set_metrics_address(metrics);
  worker.hello.mutable_build()->set_device("cpu");
  worker.status.phase = state::WorkerPhase::kReady;
  return worker;
}

TEST(ScrapeTargetsTest, NamesEachLivingWorkerByWhereItIsReached) {
  scheduler::Worker lost = MakeWorker("b/1", "b:7081", "b:7181");
  lost.status.phase = state::WorkerPhase::kLost;
  const auto groups = nlohmann::json::parse(ScrapeTargets(
      {MakeWorker("a/0", "127.0.0.1:7080", "127.0.0.1:7180"),
       MakeWorker("b/0", "b.crew:7080", "0.0.0.0:7180"),
       MakeWorker("c/0", "[::1]:7080", "[::]:7180"), MakeWorker("d/0", "d:7080", ""), lost}));
  ASSERT_EQ(groups.size(), 3u) << groups;
  EXPECT_EQ(groups[0]["targets"][0], "127.0.0.1:7180");
  EXPECT_EQ(groups[0]["labels"]["instance"], "a/0");
  EXPECT_EQ(groups[0]["labels"]["device"], "cpu");
  EXPECT_EQ(groups[1]["targets"][0], "b.crew:7180");
  EXPECT_EQ(groups[2]["targets"][0], "[::1]:7180");
}

TEST(ScrapeTargetsTest, NoWorkerIsAnEmptyList) { EXPECT_EQ(ScrapeTargets({}), "[]\n"); }

}  // namespace
}  // namespace coxswain::api
