// A job as it is stored and shown: every change of it goes through here.
#ifndef COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_RECORD_H_
#define COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_RECORD_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "controller/driver/records/journal.h"
#include "controller/runtime/metrics.h"
#include "controller/state/job_state.h"
#include "controller/store/store.h"

namespace coxswain::driver {

class JobRecord {
 public:
  JobRecord(Loop* loop, Journal* journal, Metrics* metrics, store::JobRow row);

  const std::string& id() const { return row_.job.id(); }
  const v1::Job& job() const { return row_.job; }
  const store::JobRow& row() const { return row_; }
  v1::JobState phase() const { return status_.phase; }
  const state::JobStatus& status() const { return status_; }

  // Moves the job by state::Transition, with a StateChanged event. FailedPrecondition when that
  // cannot happen; nothing is changed then.
  absl::Status Apply(state::JobEvent event, const std::string& reason);
  // Does the same; `reserved` are the ids of the workers that admission took.
  absl::Status Apply(state::JobEvent event, const std::string& reason,
                     const std::vector<std::string>& reserved);
  // Apply for a user's request, with the changes that `beside` makes to the row. It is durable
  // before anything else follows from it. Unavailable names the store's error; the job is then
  // unchanged.
  absl::Status Decide(
      state::JobEvent event, const std::string& reason,
      absl::FunctionRef<void(store::JobRow*)> beside = [](store::JobRow*) {});
  // Stores both in store::JobRow of a DRAINING job, so that another controller can continue the
  // drain.
  void DrainsAt(int64_t step, const std::string& yields_to);
  // A checkpoint that is further than any before was committed.
  void CheckpointAdvanced();
  // Why the job waits until `retry_unix_ms`; shown while it is RECOVERING or EXPORTING.
  void SetBack(const v1::Error& error, int64_t retry_unix_ms);
  // The job's visible fields; call Changed afterwards.
  v1::Job& edit() { return row_.job; }
  void Changed();  // version + 1, written with the next commit
  // Appends to the job's history what make_events.h made; `message` is cleaned.
  void AddEvent(v1::JobEvent event, const std::string& message);

 private:
  absl::Status Change(state::JobEvent event, const std::string& reason,
                      const std::vector<std::string>& reserved);
  void Observe(v1::JobState before);

  Loop* const loop_;
  Journal* const journal_;
  Metrics* const metrics_;
  store::JobRow row_;
  state::JobStatus status_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_RECORDS_JOB_RECORD_H_
