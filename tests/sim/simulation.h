// A whole cluster in one thread and virtual time: the real controller code over fake workers and
// storage in memory, the faults that befall them, and the rules that hold all the same.
#ifndef COXSWAIN_TESTS_SIM_SIMULATION_H_
#define COXSWAIN_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <prometheus/registry.h>

#include "controller/api/registration.h"
#include "controller/driver/job/job_table.h"
#include "controller/scheduler/registry.h"
#include "tests/sim/agenda.h"
#include "tests/sim/coverage.h"
#include "tests/sim/crash_point.h"
#include "tests/sim/draw.h"
#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/fakes/faulty_files.h"
#include "tests/sim/fakes/faulty_store.h"
#include "tests/sim/fakes/faulty_transport.h"
#include "tests/sim/fakes/memory_files.h"
#include "tests/sim/fakes/memory_store.h"
#include "tests/sim/fakes/synthetic_curriculum.h"
#include "tests/sim/fakes/virtual_clock.h"
#include "tests/sim/fakes/virtual_lanes.h"
#include "tests/sim/rules.h"
#include "tests/sim/users.h"

namespace coxswain::sim {

struct Controller;

struct JobShape {
  std::string name = "job";
  int workers = 2;
  int64_t steps = 12;
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
  std::string model = "/model";
  std::string output_dir = {};  // empty: /out/<name>
  std::string push_to = {};     // a repository of the Hub; empty: none
  std::string report_to = {};   // trackers, e.g. "jsonl, wandb"; empty: none
  int64_t answer_tokens = 0;    // not 0: it trains nothing and answers, with as many at most
};

std::string JobYaml(const JobShape& shape);

class Simulation {
 public:
  struct Options {
    uint64_t seed = 1;
    int workers = 2;
    SyntheticShape shape;
    Network network;
    driver::Settings settings = OnlyCredits();
    driver::BinWork work;          // of every plan
    int64_t lane_most_ms = 0;      // of work in lanes
    Coverage* coverage = nullptr;  // counts what is met; null: nobody does
  };
  // Virtual steps are short, and many of them in flight are much of a job.
  static driver::Settings OnlyCredits() {
    driver::Settings settings;
    settings.ahead = {};
    return settings;
  }
  explicit Simulation(Options options);
  ~Simulation();

  // The controller. StartController recovers from the store.
  void StartController();
  void CrashController();  // as SIGKILL: nothing is flushed
  bool up() const { return controller_ != nullptr; }
  // The same, also from within the controller's own tasks; it is started after `down_ms`. The
  // second: when it has had so many more effects on the world (crash_point.h).
  void KillController(int64_t down_ms);
  void KillControllerAfter(int effects, int64_t down_ms);
  // As SIGTERM: its jobs have `grace_ms` to stop with a checkpoint; it is started after `down_ms`.
  void StopController(int64_t grace_ms, int64_t down_ms);
  // While the controller is down: its store is that of a backup again, or is lost and made anew.
  void RestoreStore(const store::MemoryStore& backup);
  void LoseStore();
  driver::JobTable& jobs();
  driver::Deps& deps();
  scheduler::Registry& registry();

  FakeWorkers& workers() { return workers_; }
  store::MemoryStore& store() { return store_; }
  MemoryFiles& files() { return files_; }
  FaultyStore& faulty_store() { return faulty_store_; }
  FaultyFiles& faulty_files() { return faulty_files_; }
  FaultyTransport& transport() { return transport_; }
  Users& users() { return users_; }
  Rules& rules() { return rules_; }
  const VirtualClock& clock() const { return clock_; }
  prometheus::Registry& metrics() { return *metrics_registry_; }
  void At(int64_t delay_ms, std::function<void()> task) {
    agenda_.After(delay_ms, std::move(task));
  }

  // The loop does nothing for so long; workers and network go on.
  void StallLoop(int64_t ms);
  // Everything stands still for so long, as when machines are suspended.
  void Suspend(int64_t ms) { clock_.AdvanceTo(clock_.NowNs() + ms * 1'000'000); }
  void JumpWall(int64_t ms) { clock_.JumpWall(ms); }
  // During `for_ms` work in lanes takes up to `most_ms`, and ranks that long to save.
  void SlowDisk(int64_t most_ms, int64_t for_ms);

  // Starts the process of a slot that has none, as one of a device, and registers it.
  void StartWorker(int slot, const std::string& device);
  // Kills the process of a slot and starts a new one after `down_ms`.
  void RestartWorker(int slot, int64_t down_ms);
  // Adds a worker in a slot that is free.
  void AddWorker(int slot);
  // What preparing data answers until this is OK again.
  void FailPreparation(absl::Status status) { prepare_error_ = std::move(status); }
  void FailPush(absl::Status status) { push_error_ = std::move(status); }
  int64_t exports() const { return exports_; }  // that were made

  // Submits as api::Submit does, and returns the job's id.
  std::string Submit(const JobShape& shape, bool paused = false);
  const v1::Job& Job(const std::string& id);
  std::vector<v1::JobEvent> Events(const std::string& id, const std::string& type = "");

  // Runs until `done` or `limit_ms` of virtual time from now. True: done.
  bool RunUntil(std::function<bool()> done, int64_t limit_ms);
  bool RunUntilState(const std::string& id, v1::JobState state, int64_t limit_ms = 3'600'000);
  void RunFor(int64_t ms);

  // A user submits it, with an idempotency key, until it is accepted.
  void Ask(const JobShape& shape, bool may_be_cancelled, int lost_answers = 0);
  std::string AnyJob(Draw& draw) const;  // a name of those
  bool MayCancel(const std::string& name) const { return may_cancel_.at(name); }

  // From now on nothing fails.
  void Mend();
  // The rules that were broken, in words; empty is good. The first also asks those of the end.
  std::vector<std::string> Violations();
  const std::vector<std::string>& violations() const { return rules_.violations(); }
  // Faults as they took effect, and what became of jobs and checkpoints, with virtual times.
  const std::string& history() const { return history_; }
  void Note(const std::string& what);
  void Count(const std::string& row);        // for the coverage table
  uint64_t terms() const { return terms_; }  // starts of the controller

 private:
  void Observe();
  void Watch(Controller& controller);
  void AfterTask();
  void NoteCommit(const store::Batch& batch);
  void Pump();
  void Bury();
  void Beat(int slot, uint64_t registration);
  void OnBeat(int slot, uint64_t registration, const v1::HeartbeatRequest& beat);
  void RegisterWorker(int slot);
  void LostController(int slot);
  bool Deliver(std::function<void(api::Context&)> request);

  const Options options_;
  VirtualClock clock_;
  Agenda agenda_{&clock_};
  CrashPoint crash_;
  MemoryFiles files_;
  store::MemoryStore store_;
  FakeWorkers workers_;
  FaultyFiles faulty_files_{&files_, &crash_};
  FaultyStore faulty_store_{&store_, &crash_};
  FaultyTransport transport_{&agenda_, &workers_, &crash_};
  VirtualLanes lanes_;
  Rules rules_;
  Users users_;
  driver::LaneWork lane_work_;
  absl::Status prepare_error_;
  absl::Status push_error_;
  int64_t exports_ = 0;
  std::shared_ptr<prometheus::Registry> metrics_registry_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Controller> controller_;
  bool in_loop_ = false;                   // a task of the controller runs
  int64_t down_ms_ = 0;                    // after the controller's death
  std::map<int, uint64_t> registrations_;  // the last of each slot
  std::map<int, int64_t> lost_since_ms_;   // slots without a controller
  uint64_t last_registration_ = 0;
  std::map<std::string, bool> may_cancel_;  // jobs of users, by name
  std::string history_;
  int submitted_ = 0;
  uint64_t terms_ = 0;   // of controllers that have recovered
  uint64_t starts_ = 0;  // of controllers, while they recover too
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_SIMULATION_H_
