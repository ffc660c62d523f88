// `auto` under spec.resources: chosen once, by the workers that live, before anything depends on
// it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "controller/driver/preparation/choose_resources.h"
#include "controller/scheduler/registry.h"
#include "tests/common/config/default_spec.h"
#include "tests/sim/simulation.h"
#include "tests/support/job_test.h"

namespace coxswain::sim {
namespace {

using config::Device;

scheduler::Worker Worker(const char* device, const char* name) {
  scheduler::Worker worker;
  worker.hello.mutable_build()->set_device(device);
  worker.hello.set_device_name(name);
  worker.status.phase = state::WorkerPhase::kReady;
  return worker;
}

config::JobSpec Spec(Device device, int64_t workers) {
  config::JobSpec job = config::DefaultSpec();
  job.device = device;
  job.workers = workers;
  return job;
}

TEST(ChooseResourcesTest, CudaWhereAGpuWorkerLivesElseCpu) {
  const std::vector<scheduler::Worker> cpus(2, Worker("cpu", "EPYC"));
  auto choice = driver::ChooseResources(Spec(Device::kAuto, 1), cpus);
  EXPECT_EQ(choice->Text(),
            "device: cpu, workers: 1 (auto: no GPU worker is registered, 2 workers)");
  EXPECT_FALSE(choice->final);
  std::vector<scheduler::Worker> mixed = cpus;
  mixed.push_back(Worker("cuda", "NVIDIA H200"));
  choice = driver::ChooseResources(Spec(Device::kAuto, 1), mixed);
  EXPECT_EQ(choice->Text(), "device: cuda, workers: 1 (auto: 1 worker, NVIDIA H200)");
  EXPECT_TRUE(choice->final);
}

TEST(ChooseResourcesTest, AutoWorkersAreAllThatCanBeGiven) {
  std::vector<scheduler::Worker> workers(5, Worker("cuda", "NVIDIA H200"));
  workers[0].status.phase = state::WorkerPhase::kLost;
  workers[1].status.draining = true;
  workers[2].status.phase = state::WorkerPhase::kRunning;  // at work, and free again some day
  const auto choice = driver::ChooseResources(Spec(Device::kAuto, 0), workers);
  EXPECT_EQ(choice->workers, 3);
  EXPECT_FALSE(choice->final);
}

TEST(ChooseResourcesTest, NothingIsChosenWithoutAWorkerOfTheDevice) {
  EXPECT_FALSE(driver::ChooseResources(Spec(Device::kAuto, 0), {}).has_value());
  EXPECT_FALSE(
      driver::ChooseResources(Spec(Device::kCuda, 0), {Worker("cpu", "EPYC")}).has_value());
}

class JobResourcesTest : public support::JobTest {
 protected:
  static Simulation::Options NoWorkers() {
    Simulation::Options options;
    options.workers = 0;
    return options;
  }
  static JobShape Auto(const std::string& resources = "device: auto, workers: auto") {
    return {.resources = resources};
  }
};

TEST_F(JobResourcesTest, AJobWaitsForWorkersAndTakesTheGpusThatComeLater) {
  Simulation sim(NoWorkers());
  const std::string id = sim.Submit(Auto());
  sim.RunFor(60'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_PREPARING);
  EXPECT_EQ(sim.Job(id).device(), "auto");
  sim.StartWorker(0, "cpu");
  sim.RunFor(3'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_PREPARING) << "others may be about to register";
  sim.StartWorker(1, "cuda");
  sim.RunFor(1'000);
  sim.StartWorker(2, "cuda");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(sim.Job(id).device(), "cuda");
  EXPECT_EQ(sim.Job(id).workers(), 2);
  EXPECT_EQ(sim.Job(id).resources_reason(), "auto: 2 workers, Sim cuda");
  const auto events = sim.Events(id, "ResourcesChosen");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].message(), "device: cuda, workers: 2 (auto: 2 workers, Sim cuda)");
  const auto effective = nlohmann::json::parse(sim.Job(id).effective_json());
  EXPECT_EQ(effective["spec"]["resources"]["device"], "cuda");
  EXPECT_EQ(effective["spec"]["resources"]["workers"], 2);
  EXPECT_EQ(effective["spec"]["precision"]["compute"], "bfloat16");
}

TEST_F(JobResourcesTest, CpuIsTakenWhenNoGpuRegisteredInTime) {
  Simulation sim({});
  const std::string id = sim.Submit(Auto("workers: 2"));
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED, 120'000));
  EXPECT_EQ(sim.Job(id).device(), "cpu");
  const auto effective = nlohmann::json::parse(sim.Job(id).effective_json());
  EXPECT_EQ(effective["spec"]["precision"]["compute"], "float32");
}

// Invariant driver-13. Numbers depend on the choice: what it was made by may change, it does not.
TEST_F(JobResourcesTest, TheChoiceStaysOverARestartWithOtherWorkers) {
  Simulation::Options options;
  options.network.step_ms = 500;
  Simulation sim(options);
  const std::string id = sim.Submit(Auto());
  ASSERT_TRUE(sim.RunUntil([&] { return sim.Job(id).progress().step() == 4; }, 60'000));
  sim.CrashController();
  sim.StartController();
  sim.StartWorker(2, "cuda");
  sim.StartWorker(3, "cpu");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED)) << sim.Job(id).DebugString();
  EXPECT_EQ(sim.Job(id).device(), "cpu");
  EXPECT_EQ(sim.Job(id).workers(), 2);
  EXPECT_EQ(sim.Events(id, "ResourcesChosen").size(), 1u);
  EXPECT_TRUE(sim.Violations().empty());
}

TEST_F(JobResourcesTest, AnUnchosenJobIsChosenAfterARestart) {
  Simulation sim(NoWorkers());
  const std::string id = sim.Submit(Auto("device: cuda, workers: auto"));
  sim.RunFor(1'000);
  sim.CrashController();
  sim.StartController();
  sim.StartWorker(0, "cpu");
  sim.RunFor(20'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_PREPARING) << "it wants a GPU";
  sim.StartWorker(1, "cuda");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(sim.Job(id).workers(), 1);
}

// A release that knew no auto: what did not name a device ran on the CPU.
TEST_F(JobResourcesTest, AStoredJobWithoutADeviceStaysOnTheCpu) {
  Simulation sim({});
  const std::string id = sim.Submit(Auto("workers: 2"));
  store::Batch batch;
  batch.jobs = *sim.store().Jobs();
  batch.jobs[0].job.clear_device();
  ASSERT_TRUE(sim.store().Commit(batch).ok());
  sim.CrashController();
  sim.StartController();
  sim.StartWorker(2, "cuda");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_TRUE(sim.Events(id, "ResourcesChosen").empty());
  for (const v1::JobEvent& formed : sim.Events(id, "GangFormed")) {
    const auto& workers = formed.gang_formed().workers();
    EXPECT_EQ((std::vector<std::string>{workers.begin(), workers.end()}),
              (std::vector<std::string>{"sim/0", "sim/1"}));
  }
}

TEST_F(JobResourcesTest, AChoiceThatTheJobsRulesRefuseFailsIt) {
  Simulation sim(NoWorkers());
  JobShape shape = Auto("workers: auto");
  shape.extra_eval = "}\n  parallelism: {shard: 2";
  const std::string id = sim.Submit(shape);
  for (int slot = 0; slot < 3; ++slot) sim.StartWorker(slot, "cpu");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_FAILED));
  EXPECT_EQ(sim.Job(id).error().kind(), v1::ERROR_KIND_USER);
  EXPECT_NE(sim.Job(id).error().message().find("workers: 3 (auto: "), std::string::npos)
      << sim.Job(id).error().message();
  EXPECT_NE(sim.Job(id).error().message().find("does not divide resources.workers 3"),
            std::string::npos);
}

// What does not depend on workers is done, and found wrong, without them.
TEST_F(JobResourcesTest, DataIsPreparedAndRefusedWithoutWorkers) {
  Simulation sim(NoWorkers());
  int prepared = 0;
  bool good = true;
  sim.deps().lane_work->prepare = [&](const config::JobSpec& spec, const driver::PrepareHooks&)
      -> absl::StatusOr<std::shared_ptr<const driver::Curriculum>> {
    ++prepared;
    EXPECT_TRUE(config::HasChosenResources(spec));
    if (!good) return absl::InvalidArgumentError("train.jsonl:3: bad JSON");
    return std::make_shared<SyntheticCurriculum>(SyntheticShape());
  };
  const std::string id = sim.Submit(Auto());
  sim.RunFor(1'000);
  EXPECT_EQ(prepared, 1);
  EXPECT_TRUE(sim.Job(id).recipe_hash().empty());
  sim.StartWorker(0, "cpu");
  ASSERT_TRUE(sim.RunUntilState(id, v1::JOB_STATE_SUCCEEDED));
  EXPECT_EQ(prepared, 2);
  EXPECT_EQ(sim.Events(id, "DataPrepared").size(), 1u);
  good = false;
  const std::string bad = sim.Submit({.name = "bad", .resources = "device: cuda, workers: auto"});
  ASSERT_TRUE(sim.RunUntilState(bad, v1::JOB_STATE_FAILED, 1'000));
  EXPECT_NE(sim.Job(bad).error().message().find("train.jsonl:3"), std::string::npos);
}

TEST_F(JobResourcesTest, AWaitingJobCanBePausedAndCancelled) {
  Simulation sim(NoWorkers());
  const std::string id = sim.Submit(Auto());
  sim.RunFor(1'000);
  ASSERT_TRUE((*sim.jobs().Find(id))->Pause().ok());
  sim.StartWorker(0, "cpu");
  sim.RunFor(60'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(sim.Job(id).device(), "auto");
  ASSERT_TRUE((*sim.jobs().Find(id))->Resume(0).ok());
  ASSERT_TRUE((*sim.jobs().Find(id))->Cancel().ok());
  sim.RunFor(10'000);
  EXPECT_EQ(sim.Job(id).state(), v1::JOB_STATE_CANCELLED);
}

}  // namespace
}  // namespace coxswain::sim
