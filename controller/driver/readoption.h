// A gang that the controller before commanded: what is recorded of it, and who of it is still
// there.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/driver/answer_report.h"
#include "controller/driver/training_position.h"
#include "controller/gang/gang.h"
#include "controller/gang/gang_ranks.h"
#include "controller/scheduler/registry.h"
#include "controller/scheduler/worker.h"
#include "controller/store/store.h"

namespace coxswain::driver {

class Readoption {
 public:
  // Nothing: the store has no gang of the job that goes on; it ended, or was never whole. An error
  // of the store, or DataLoss, where that is not known. `trains`: else the job only generates.
  static absl::StatusOr<std::optional<Readoption>> Find(store::Store* store, const v1::Job& job,
                                                        bool trains);

  // A worker that has just registered: the rank that it is, -1: none. FailedPrecondition where it
  // should be one and is not as recorded: another process, or one that left the gang, has another
  // plan, or has done less than was recorded.
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

  // "rank 1 (host/0), rank 2 (host/1)" of those that have not returned.
  std::string Missing() const;
  // Incarnations of those that have.
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
  TrainingPosition position_;
  ToldAnswers told_;
  std::vector<gang::KnownRank> known_;
  std::vector<std::optional<scheduler::Worker>> workers_;  // by rank
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_H_
