// The controller's way to its store: commits and reads can fail, take long, and end with the
// controller.
#ifndef COXSWAIN_TESTS_SIM_FAKES_FAULTY_STORE_H_
#define COXSWAIN_TESTS_SIM_FAKES_FAULTY_STORE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/crash_point.h"
#include "tests/sim/fakes/memory_store.h"

namespace coxswain::sim {

class FaultyStore : public store::Store {
 public:
  FaultyStore(store::MemoryStore* base, CrashPoint* crash) : base_(base), crash_(crash) {}

  void FailCommits(int count) { failing_commits_ = count; }
  void FailReads(int count) { failing_reads_ = count; }
  // The next commit takes that long, during which the loop does nothing else.
  void SlowCommit(int64_t ms) { slow_ms_ = ms; }
  void Mend() { failing_commits_ = failing_reads_ = slow_ms_ = 0; }
  // Makes a slow commit wait.
  void OnSlow(std::function<void(int64_t ms)> wait) { wait_ = std::move(wait); }
  // Called before a commit and after one that succeeded.
  using OnCommit = std::function<void(const store::Batch& batch)>;
  void OnCommits(OnCommit before, OnCommit after) {
    before_ = std::move(before);
    after_ = std::move(after);
  }
  void OnFault(std::function<void(const std::string& what)> observer) {
    observer_ = std::move(observer);
  }

  std::string Id() const override { return base_->Id(); }
  absl::StatusOr<uint64_t> NextTerm(uint64_t seen) override;
  absl::Status Commit(const store::Batch& batch) override;
  absl::StatusOr<bool> SweepDeleted() override { return base_->SweepDeleted(); }
  absl::StatusOr<std::vector<store::JobRow>> Jobs() override;
  absl::StatusOr<std::vector<store::EpochRow>> Epochs(const std::string& job) override;
  absl::StatusOr<std::vector<store::EvalRow>> Evals(const std::string& job,
                                                    uint64_t epoch) override;
  absl::StatusOr<std::optional<store::PositionRow>> Position(const std::string& job) override;
  absl::StatusOr<std::string> PlanBytes(const std::string& hash) override;
  absl::StatusOr<std::vector<store::CheckpointRow>> Checkpoints(const std::string& job) override;
  absl::StatusOr<std::optional<store::KeyRow>> FindKey(const std::string& key) override;
  absl::StatusOr<std::vector<store::LinkRow>> Links() override;
  absl::StatusOr<std::vector<store::CordonRow>> Cordons() override { return base_->Cordons(); }
  absl::StatusOr<std::vector<store::TokenRow>> Tokens() override { return base_->Tokens(); }
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job, int64_t after,
                                                   int64_t limit) override;
  absl::StatusOr<int64_t> UnendedPreparations(const std::string& job) override {
    return base_->UnendedPreparations(job);
  }
  absl::Status SetUnendedPreparations(const std::string& job, int64_t count) override {
    return base_->SetUnendedPreparations(job, count);
  }
  absl::Status CheckWritable() override { return base_->CheckWritable(); }
  store::History* history() override { return base_->history(); }

 private:
  absl::Status BeforeRead(const char* what);

  store::MemoryStore* const base_;
  CrashPoint* const crash_;
  int64_t failing_commits_ = 0;
  int64_t failing_reads_ = 0;
  int64_t slow_ms_ = 0;
  std::function<void(int64_t)> wait_;
  OnCommit before_, after_;
  std::function<void(const std::string&)> observer_;
};

}  // namespace coxswain::sim

#endif  // COXSWAIN_TESTS_SIM_FAKES_FAULTY_STORE_H_
