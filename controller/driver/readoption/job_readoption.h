// A job's gang over a restart of the controller. It records the gang for the next controller, and
// waits for the ranks that the previous controller commanded.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_READOPTION_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_READOPTION_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/driver/readoption/readoption.h"
#include "controller/driver/records/job_context.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

// Loop thread only.
class JobReadoption {
 public:
  explicit JobReadoption(const JobContext& job) : job_(job) {}

  // Call it at the start. If the store has a gang that can continue, its ranks are awaited for
  // Settings::readopt_timeout. Where it cannot continue, OnGangLost must drop it. `trains`: false
  // if the job only generates.
  void LookForGang(bool trains);
  bool awaits() const { return found_ != nullptr; }
  bool complete() const { return found_ != nullptr && found_->complete(); }  // all are there
  uint64_t epoch() const { return found_->epoch(); }                         // of what is awaited
  // The rank that a worker is that has just registered, -1: none, or one that does not agree with
  // what is recorded; then it is given up.
  int Return(const scheduler::Worker& worker);

  // It is awaited no more, but entered.
  std::shared_ptr<const Readoption> Take();
  // It is awaited no more: those of its ranks that are there are free when they have dropped its
  // epoch. Nothing where none is awaited.
  void Drop(const std::string& reason);
  void TellThatItEnds(uint64_t epoch, const std::string& reason);  // to the job's history

  // Another controller could go on from where the program stands; nothing where it tells none.
  void Record(const gang::GangSession& session, const gang::Program& program);
  // Nothing goes on from the job's gang any more.
  void EndPosition();

 private:
  const JobContext& job_;
  std::shared_ptr<Readoption> found_;  // null: no gang is awaited
  Lifetime lifetime_;                  // cut when it is awaited no more
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_READOPTION_H_
