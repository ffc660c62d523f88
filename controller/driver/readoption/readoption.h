// The records of a gang that the previous controller commanded, and which of its ranks have come
// back.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_READOPTION_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_READOPTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/driver/report/answer_report.h"
#include "controller/driver/training/training_position.h"
#include "controller/gang/gang.h"
#include "controller/gang/gang_ranks.h"
#include "controller/scheduler/registry.h"
#include "controller/scheduler/worker.h"
#include "controller/store/store.h"

namespace coxswain::driver {

class Readoption {
 public:
  // Nothing when no gang of the job can continue: it ended, or was never whole. An error of the
  // store, or DataLoss, when the records cannot be read. `trains`: false if the job only generates.
  static absl::StatusOr<std::optional<Readoption>> Find(store::Store* store, const v1::Job& job,
                                                        bool trains);

  // The rank of a worker that has just registered, -1: none. FailedPrecondition when the worker
  // should be a rank and differs from the records: it is another process, has left the gang, has
  // another plan, has done less than was recorded, or does not say which commands came behind that.
  absl::StatusOr<int> Return(const scheduler::Worker& worker);

  int world_size() const { return static_cast<int>(known_.size()); }
  int returned() const;
  bool complete() const { return returned() == world_size(); }
  uint64_t epoch() const { return epoch_.epoch; }
  const TrainingPosition& position() const { return position_; }  // of a job that trains
  const ToldAnswers& told() const { return told_; }               // of one that generates
  // The newest command whose answers are not needed again; 0: all are.
  uint64_t taken() const { return taken_; }
  uint64_t queued() const { return queued_; }  // newest command that a rank has, >= taken
  // The commands behind `taken`, up to `queued`.
  const std::vector<v1::CommandKind>& sent() const { return sent_; }

  // The ranks that have not returned: "rank 1 (host/0), rank 2 (host/1)".
  std::string Missing() const;
  // Incarnations of the ranks that have returned.
  std::vector<std::string> Present() const;
  // The gang under the registry's store and term; every rank has returned.
  gang::Gang MakeGang(const scheduler::Registry& registry) const;

 private:
  std::string Name(size_t rank) const;
  absl::Status CheckReturned(size_t rank, const v1::RegisterRequest& hello) const;

  store::EpochRow epoch_;
  std::string plan_bytes_;
  uint64_t taken_ = 0;
  uint64_t queued_ = 0;
  std::vector<v1::CommandKind> sent_;
  TrainingPosition position_;
  ToldAnswers told_;
  std::vector<gang::KnownRank> known_;
  std::vector<std::optional<scheduler::Worker>> workers_;  // by rank
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_READOPTION_H_
