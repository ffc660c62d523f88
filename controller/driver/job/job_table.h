// All jobs of the controller: lookup, queue, admission, recovery after a restart.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TABLE_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/driver/job/job_driver.h"
#include "controller/driver/records/deleted_history.h"
#include "controller/driver/records/deps.h"
#include "controller/scheduler/admission.h"
#include "controller/scheduler/host_records.h"

namespace coxswain::driver {

// Loop thread only.
class JobTable {
 public:
  explicit JobTable(const Deps& deps);

  // Takes the next term and takes up every job of the store; one whose row cannot be read, or that
  // this release does not understand, is shown FAILED. Until it returns OK nothing is served.
  absl::Status Recover();
  bool recovered() const { return recovered_; }

  // Adds a durable job and takes it up.
  void Add(store::JobRow row, config::JobSpec spec);
  int64_t NextOrder() const { return last_order_ + 1; }
  // By id, unique id prefix, or name: the one job of that name that has not ended, else the newest.
  // NotFound, or InvalidArgument listing the ids that a prefix or several jobs of the name have.
  // With an `owner`, there are that user's jobs alone.
  absl::StatusOr<JobDriver*> Find(const std::string& reference, const std::string& owner = "");
  JobDriver* FindById(const std::string& id);  // null: there is none
  std::vector<JobDriver*> NewestFirst();
  // A terminal job's records. FailedPrecondition for another state; Unavailable: the store did not
  // take it, and the job is still there.
  absl::Status Delete(const std::string& id);

  // The controller stops: no job is admitted any more, those that run stop at their next step
  // boundary with a checkpoint. `at_rest` is called once, later: none trains or saves any more, and
  // their workers are free.
  void Stop(std::function<void()> at_rest);
  bool stopping() const { return stopping_; }
  std::vector<std::string> NotAtRest() const;  // ids of jobs that still train or save

  // A worker, by id, or all of a host get no new job from now on, under later controllers too.
  // NotFound: no such is registered, nor cordoned. Unavailable: the store did not take it.
  absl::Status Cordon(const std::string& target, const std::string& reason);
  // They may have jobs again; nothing when they may. FailedPrecondition: a worker's host is
  // cordoned. Other errors as Cordon.
  absl::Status Uncordon(const std::string& target);
  // Ids of the living workers that a target stands for.
  std::vector<std::string> WorkersOf(const std::string& target) const;

  // Gives free workers to waiting jobs. Coalesced: any number of calls is one round.
  void Reschedule();
  // Jobs that wait for workers or keep some, in the order in which they get them.
  std::vector<scheduler::QueueEntry> Queue() const;
  // The recovering job that a free worker is kept for; null: none.
  const JobDriver* KeptFor(const scheduler::Worker& worker) const;
  // Another job that writes the same output directory now, by whatever path; null: none.
  const JobDriver* OutputHeldBy(const JobDriver& job) const;

 private:
  int AwaitedRank(const scheduler::Worker& worker);
  void RestoreLinks();
  absl::Status RestoreCordons();
  absl::Status NoSuchWorker(const std::string& target) const;
  absl::Status NothingToLift(const std::string& target) const;
  std::optional<v1::JobEvent> HostFailed(const std::string& job, const v1::Error& error);
  void RecoverJob(store::JobRow row);
  void SetAside(store::JobRow row);
  void Schedule();
  void LookForRest();
  std::map<std::string, int64_t> Held(const std::string& device) const;  // workers, by job
  void Preempt();
  void SweepLeftovers();
  // `owner`: as Find.
  absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>> ResolveCheckpoints(
      const std::string& resume, const std::string& owner);
  JobHooks Hooks(const std::string& owner);  // of the jobs of that owner
  void Observe();

  const Deps deps_;
  DeletedHistory deleted_history_;
  std::map<std::string, std::unique_ptr<JobDriver>> jobs_;  // by id
  int64_t last_order_ = 0;
  bool recovered_ = false;
  bool scheduled_ = false;
  bool stopping_ = false;
  std::function<void()> at_rest_;                      // null: called, or nobody waits
  std::map<std::string, int64_t> drop_metrics_at_ns_;  // by job
  scheduler::HostFailures host_failures_;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_TABLE_H_
