// A whole cluster in one thread and virtual time: the real controller code over fake workers,
// storage in memory, and a schedule of faults drawn from a seed.
#ifndef COXSWAIN_TESTS_SIM_SIMULATION_H_
#define COXSWAIN_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <prometheus/registry.h>

#include "controller/driver/job_table.h"
#include "controller/scheduler/registry.h"
#include "controller/store/memory_store.h"
#include "tests/sim/agenda.h"
#include "tests/sim/fake_workers.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/synthetic_curriculum.h"
#include "tests/sim/virtual_clock.h"

namespace coxswain::sim {

struct JobShape {
  std::string name = "job";
  int workers = 2;
  std::string resources = {};  // in place of device and workers, e.g. "device: auto, workers: auto"
  int64_t eval_steps = 4;
  int64_t save_steps = 3;
  int64_t save_total_limit = 2;
  int max_restarts = 1000;
  int max_restarts_total = 1000000;
  int priority = 0;
  std::string extra_eval = {};  // e.g. ", early_stopping_patience: 2"
  std::string resume = "auto";
  std::string extra_checkpoint = {};  // e.g. ", test_save: true"
  std::string output_dir = {};        // empty: /out/<name>
};

std::string JobYaml(const JobShape& shape);

class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    int workers = 2;
    SyntheticShape shape;
    Network network;
    driver::Settings settings;
    driver::BinWork work;  // of every plan
  };
  explicit Simulation(Options options);
  ~Simulation();

  // The controller. StartController recovers from the store.
  void StartController();
  void CrashController();  // as SIGKILL: nothing is flushed
  bool up() const { return controller_ != nullptr; }
  driver::JobTable& jobs();
  driver::Deps& deps();
  scheduler::Registry& registry();

  FakeWorkers& workers() { return workers_; }
  store::MemoryStore& store() { return store_; }
  MemoryFiles& files() { return files_; }
  const VirtualClock& clock() const { return clock_; }
  prometheus::Registry& metrics() { return *metrics_registry_; }
  void At(int64_t delay_ms, std::function<void()> task) {
    agenda_.After(delay_ms, std::move(task));
  }

  // The loop does nothing for so long; workers and network go on.
  void StallLoop(int64_t ms);
  // Everything stands still for so long, as when machines are suspended.
  void Suspend(int64_t ms) { clock_.AdvanceTo(clock_.NowNs() + ms * 1'000'000); }

  // Starts the process of a slot that has none, as one of a device, and registers it.
  void StartWorker(int slot, const std::string& device);
  // Kills the process of a slot and starts a new one after `down_ms`.
  void RestartWorker(int slot, int64_t down_ms);
  // Adds a worker in a slot that is free.
  void AddWorker(int slot);
  // What preparing data answers until this is OK again.
  void FailPreparation(absl::Status status) { prepare_error_ = std::move(status); }

  // Submits as api::Submit does, and returns the job's id.
  std::string Submit(const JobShape& shape, bool paused = false);
  const v1::Job& Job(const std::string& id);
  std::vector<v1::JobEvent> Events(const std::string& id, const std::string& type = "");

  // Runs until `done` or `limit_ms` of virtual time from now. True: done.
  bool RunUntil(std::function<bool()> done, int64_t limit_ms);
  bool RunUntilState(const std::string& id, v1::JobState state, int64_t limit_ms = 3'600'000);
  void RunFor(int64_t ms);

  // Faults at random times during the next `horizon_ms`.
  void ScheduleFaults(int64_t horizon_ms, int faults);
  // The rules of the control plane that must hold whatever happened; in words, empty is good.
  std::vector<std::string> Violations();
  std::string history() const { return history_; }  // faults injected, for a failing seed
  uint64_t terms() const { return terms_; }         // starts of the controller

 private:
  struct Controller;
  void Pump();
  void Beat(int slot, uint64_t registration);
  void RegisterWorker(int slot);
  void InjectFault();
  void CheckSteps(const v1::Job& job, std::vector<std::string>* out);
  void CheckCheckpoints(const v1::Job& job, std::vector<std::string>* out);
  void CheckLineage(const v1::Job& job, std::vector<std::string>* out);
  void CheckEvents(const v1::Job& job, std::vector<std::string>* out);

  const Options options_;
  std::mt19937_64 random_;
  VirtualClock clock_;
  Agenda agenda_{&clock_};
  MemoryFiles files_;
  store::MemoryStore store_;
  FakeWorkers workers_;
  driver::LaneWork lane_work_;
  absl::Status prepare_error_;
  std::shared_ptr<prometheus::Registry> metrics_registry_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Controller> controller_;
  std::map<int, uint64_t> beat_streams_;
  std::map<int, uint64_t> registrations_;  // the last of each slot
  uint64_t last_registration_ = 0;
  std::string history_;
  int submitted_ = 0;
  uint64_t terms_ = 0;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_SIMULATION_H_
