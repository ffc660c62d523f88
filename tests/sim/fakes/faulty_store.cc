#include "tests/sim/fakes/faulty_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::sim {

absl::Status FaultyStore::BeforeRead(const char* what) {
  if (crash_->dead()) return absl::UnavailableError("the controller is dead");
  if (failing_reads_ == 0) return absl::OkStatus();
  --failing_reads_;
  if (observer_) observer_(absl::StrCat("the store fails to read ", what));
  return absl::UnavailableError("the store cannot be read");
}

absl::StatusOr<uint64_t> FaultyStore::NextTerm(uint64_t seen) {
  if (!crash_->Pass()) return absl::UnavailableError("the controller is dead");
  return base_->NextTerm(seen);
}

absl::Status FaultyStore::Commit(const store::Batch& batch) {
  if (!crash_->Pass()) return absl::UnavailableError("the controller is dead");
  if (failing_commits_ > 0) {
    --failing_commits_;
    if (observer_) observer_("the store fails to commit");
    return absl::UnavailableError("the store cannot be written");
  }
  if (const int64_t ms = std::exchange(slow_ms_, 0); ms > 0) {
    if (observer_) observer_(absl::StrCat("a commit takes ", ms, " ms"));
    wait_(ms);
  }
  before_(batch);
  RETURN_IF_ERROR(base_->Commit(batch));
  after_(batch);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<store::JobRow>> FaultyStore::Jobs() { return base_->Jobs(); }
absl::StatusOr<std::vector<store::EpochRow>> FaultyStore::Epochs(const std::string& job) {
  RETURN_IF_ERROR(BeforeRead("epochs"));
  return base_->Epochs(job);
}
absl::StatusOr<std::vector<store::EvalRow>> FaultyStore::Evals(const std::string& job,
                                                               uint64_t epoch) {
  RETURN_IF_ERROR(BeforeRead("evaluations"));
  return base_->Evals(job, epoch);
}
absl::StatusOr<std::optional<store::PositionRow>> FaultyStore::Position(const std::string& job) {
  RETURN_IF_ERROR(BeforeRead("a position"));
  return base_->Position(job);
}
absl::StatusOr<std::string> FaultyStore::PlanBytes(const std::string& hash) {
  RETURN_IF_ERROR(BeforeRead("a plan"));
  return base_->PlanBytes(hash);
}
absl::StatusOr<std::vector<store::CheckpointRow>> FaultyStore::Checkpoints(const std::string& job) {
  RETURN_IF_ERROR(BeforeRead("checkpoints"));
  return base_->Checkpoints(job);
}
absl::StatusOr<std::optional<store::KeyRow>> FaultyStore::FindKey(const std::string& key) {
  RETURN_IF_ERROR(BeforeRead("an idempotency key"));
  return base_->FindKey(key);
}
absl::StatusOr<std::vector<store::LinkRow>> FaultyStore::Links() {
  RETURN_IF_ERROR(BeforeRead("links"));
  return base_->Links();
}
absl::StatusOr<std::vector<v1::JobEvent>> FaultyStore::Events(const std::string& job, int64_t after,
                                                              int64_t limit) {
  RETURN_IF_ERROR(BeforeRead("events"));
  return base_->Events(job, after, limit);
}

}  // namespace coxswain::sim
