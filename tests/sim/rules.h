// What must hold whatever happens, looked at after every task, commit, step and change of a file:
// tests/sim/README.md. What is looked at is what changed, so that a look costs little.
#ifndef COXSWAIN_TESTS_SIM_RULES_H_
#define COXSWAIN_TESTS_SIM_RULES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/driver/job/job_table.h"
#include "controller/scheduler/registry.h"
#include "tests/sim/fakes/fake_model.h"
#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/fakes/memory_files.h"
#include "tests/sim/fakes/memory_store.h"

namespace coxswain::sim {

class Rules {
 public:
  struct World {
    store::MemoryStore* store = nullptr;
    MemoryFiles* files = nullptr;
    FakeWorkers* workers = nullptr;
    int64_t bins_per_step = 0;
  };
  explicit Rules(const World& world) : world_(world), lineage_(world.bins_per_step) {}

  void BeforeCommit(const store::Batch& batch);
  void AfterCommit(const store::Batch& batch);
  void OnTrained(const v1::Fence& fence, int rank, const FakeModel& model);
  void OnChanged(const std::string& path);  // a file or directory
  // `now_ns`: by Loop::AttentiveNs.
  void AfterTask(driver::JobTable& jobs, scheduler::Registry& registry, int64_t now_ns);
  void ControllerGone() {
    idle_since_ns_.clear();
    strayed_since_ns_.clear();
  }
  // It is another's from now on, or has an earlier state: what is not in it never was. But terms go
  // on, as long as a worker lives that has seen them.
  void StoreReplaced();
  // A user was told that the request was taken; `name` of the job.
  void Accepted(const std::string& name, const std::string& id);
  void Cancelled(const std::string& id) { cancelled_[id] = true; }
  // A user paused or cancelled it while its gang was awaited after a crash: that is let go.
  void LetGo(const std::string& id) { let_go_[id] = true; }
  bool was_let_go(const std::string& id) const { return let_go_.contains(id); }

  // The rules that the end of a run is judged by.
  void AtEnd();
  void Report(const std::string& rule, const std::string& text);
  // In words, the rule first; empty is good.
  const std::vector<std::string>& violations() const { return violations_; }
  // Of a job: steps that its gangs began to train more than once.
  int64_t steps_trained_again(const std::string& job) const {
    const auto steps = trained_again_.find(job);
    return steps == trained_again_.end() ? 0 : steps->second;
  }
  int64_t committed_checkpoints() const { return committed_checkpoints_; }

 private:
  struct EpochFacts {
    std::string fingerprint, gemm_table;
    int32_t world_size = 0;
    bool operator==(const EpochFacts&) const = default;
  };
  struct Trained {
    uint64_t epoch = 0;
    uint64_t loss_bits = 0, gnorm_bits = 0;
  };
  void CheckEpoch(const store::EpochRow& row);
  void CheckStep(const store::StepRow& row);
  void CheckCheckpoint(const std::string& job, const std::string& directory);
  void CheckGangs(const std::vector<driver::JobDriver*>& jobs, scheduler::Registry& registry,
                  int64_t now_ns);
  void CheckIdle(driver::JobTable& jobs, scheduler::Registry& registry, int64_t now_ns);
  void CheckEvents(const v1::Job& job);
  void CheckArtifact(const v1::Job& job);

  const World world_;
  Lineage lineage_;
  std::map<std::string, uint64_t> current_epoch_;  // by job, in the store
  uint64_t highest_term_ = 0;
  std::map<std::pair<std::string, uint64_t>, EpochFacts> epochs_;
  std::map<std::pair<std::string, int64_t>, Trained> steps_;          // the newest of each
  std::map<std::pair<std::string, int64_t>, std::string> committed_;  // directory, by job and step
  int64_t committed_checkpoints_ = 0;
  std::map<std::pair<std::string, int64_t>, uint64_t> trained_in_;  // newest epoch, by job and step
  std::map<std::string, int64_t> trained_again_;                    // by job
  std::map<std::string, std::string> accepted_;                     // id by name
  std::map<std::string, bool> cancelled_;                           // by id
  std::map<std::string, bool> let_go_;                              // by id
  std::map<std::string, int64_t> idle_since_ns_;  // jobs that could have had workers since
  int64_t next_idle_check_ns_ = 0;
  // The clock of the rules about time: a stall is counted when its round is over, which a look
  // within it cannot know.
  int64_t attended_ns_ = 0, last_look_ns_ = 0;
  std::map<std::string, int64_t> strayed_since_ns_;  // ranks that the registry has elsewhere
  std::vector<std::string> violations_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_RULES_H_
