// The store of the simulator: what was committed survives as long as the object.
#ifndef COXSWAIN_TESTS_SIM_FAKES_MEMORY_STORE_H_
#define COXSWAIN_TESTS_SIM_FAKES_MEMORY_STORE_H_

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/store/store.h"

namespace coxswain::store {

// The store is of one thread.
class MemoryStore : public Store, public History {
 public:
  explicit MemoryStore(std::string id = "memory") : id_(std::move(id)) {}

  std::string Id() const override { return id_; }
  absl::StatusOr<uint64_t> NextTerm(uint64_t seen) override;
  absl::Status Commit(const Batch& batch) override;
  absl::StatusOr<bool> SweepDeleted() override { return false; }
  absl::StatusOr<std::vector<JobRow>> Jobs() override;
  absl::StatusOr<std::vector<EpochRow>> Epochs(const std::string& job) override;
  absl::StatusOr<std::vector<EvalRow>> Evals(const std::string& job, uint64_t epoch) override;
  absl::StatusOr<std::optional<PositionRow>> Position(const std::string& job) override;
  absl::StatusOr<std::string> PlanBytes(const std::string& hash) override;
  absl::StatusOr<std::vector<StepRow>> Steps(const std::string& job, int64_t from_step) override;
  absl::StatusOr<std::vector<CheckpointRow>> Checkpoints(const std::string& job) override;
  absl::StatusOr<std::optional<KeyRow>> FindKey(const std::string& key) override;
  absl::StatusOr<std::vector<LinkRow>> Links() override;
  absl::StatusOr<std::vector<CordonRow>> Cordons() override;
  absl::StatusOr<std::vector<TokenRow>> Tokens() override;
  absl::StatusOr<std::vector<v1::JobEvent>> Events(const std::string& job, int64_t after,
                                                   int64_t limit) override;
  absl::StatusOr<std::vector<v1::JobEvent>> EventsAfter(const std::string& job, int64_t after,
                                                        int64_t limit) override {
    return Events(job, after, limit);
  }
  absl::StatusOr<std::vector<v1::JobEvent>> NewestEvents(const std::string& job,
                                                         int64_t limit) override;
  absl::StatusOr<int64_t> UnendedPreparations(const std::string& job) override;
  absl::Status SetUnendedPreparations(const std::string& job, int64_t count) override;
  absl::Status CheckWritable() override { return write_error_; }
  History* history() override { return this; }

  // Commits fail with this until it is OK again.
  void set_write_error(absl::Status error) { write_error_ = std::move(error); }
  // Every row ever written, superseded ones included, in order of (job, step, epoch).
  std::vector<StepRow> AllSteps(const std::string& job) const;

 private:
  void DeleteJob(const std::string& id);

  std::string id_;
  absl::Status write_error_;
  uint64_t term_ = 0;
  int64_t last_event_ = 0;
  std::map<std::string, JobRow> jobs_;
  std::map<std::pair<std::string, uint64_t>, EpochRow> epochs_;
  std::map<std::tuple<std::string, uint64_t, int64_t>, EvalRow> evals_;
  std::map<std::string, PositionRow> positions_;  // by job
  std::map<std::string, int64_t> preparations_;   // by job
  std::map<std::string, std::string> plans_;
  std::map<std::tuple<std::string, int64_t, uint64_t>, StepRow> steps_;
  std::map<std::pair<std::string, int64_t>, CheckpointRow> checkpoints_;
  std::map<std::string, KeyRow> keys_;
  std::map<std::pair<std::string, int64_t>, LinkRow> links_;
  std::map<std::string, CordonRow> cordons_;
  std::map<std::pair<int64_t, std::string>, TokenRow> tokens_;  // by creation and id
  std::map<std::string, std::vector<v1::JobEvent>> events_;
};

}  // namespace coxswain::store

#endif  // COXSWAIN_TESTS_SIM_FAKES_MEMORY_STORE_H_
