// One attempt of a job to run: from reserved workers to the first command of its gang.
#ifndef COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_ATTEMPT_H_
#define COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/checkpoint/run_state.h"
#include "controller/driver/output/job_checkpoints.h"
#include "controller/driver/readoption/draft_attempt.h"
#include "controller/driver/readoption/readoption.h"
#include "controller/driver/records/job_context.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/replays.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

struct Reentry;

// Loop thread only. Facts about a gang (plan, start state, origin) stay until the next attempt.
class JobAttempt {
 public:
  // `checkpoints` outlives it.
  JobAttempt(const JobContext& job, JobCheckpoints* checkpoints)
      : job_(job), checkpoints_(checkpoints) {}

  // Call it when the job is ADMITTED. The session gets an epoch and forms. Leads to OnPlanned, or
  // to OnAttemptFailed, or OnHopeless.
  void Begin(std::shared_ptr<const Curriculum> curriculum,
             const std::vector<scheduler::Worker>& workers);
  // Call it when the gang has formed. Records fingerprint, GEMM table and links, and reports them.
  void Formed();
  // Replaces both for a gang that an earlier controller formed. `done` says whether the gang may
  // continue.
  void Reenter(std::shared_ptr<const Curriculum> curriculum,
               const std::shared_ptr<const Readoption>& found,
               std::function<void(const absl::Status&)> done);
  // None of these comes after this.
  void Stop();

  // Of the newest attempt.
  const GangPlan& plan() const { return plan_; }  // but for its bytes
  const checkpoint::RunState& start_state() const { return start_state_; }
  const Origin& origin() const { return origin_; }
  Replays TakeReplays() { return std::move(replays_); }

  // True when the error is a damaged block that a rank found in the checkpoint of this attempt. The
  // next attempt passes that checkpoint over, until it is written again.
  bool SetAside(const v1::Error& error);
  void WrittenAnew(int64_t step);

 private:
  absl::StatusOr<checkpoint::ResumeQuery> WhereToResume() const;
  checkpoint::RoomQuery RoomWanted() const;
  void MakeDraft(const WorkerFacts& workers);
  void OnDraft(Draft* draft, const absl::Status& status);
  void TellResuming(const Draft& draft);
  void ShowPlan();
  void WarnOfOtherThreads();
  void Form(gang::FormArgs args);
  void OnReentered(const Readoption& found, Reentry* reentry);
  gang::GangSession& session() const { return *job_.session; }

  const JobContext& job_;
  JobCheckpoints* const checkpoints_;
  std::shared_ptr<const Curriculum> curriculum_;
  GangPlan plan_;
  checkpoint::RunState start_state_;
  Origin origin_;                               // the other job that this one goes on from
  std::string resumed_from_;                    // directory of the checkpoint; empty: none
  int64_t resumed_threads_ = 0;                 // of the ranks that wrote it; 0: not known
  std::map<std::string, std::string> damaged_;  // directories of checkpoints, and what ranks found
  Replays replays_;
  Lifetime lifetime_;  // cut by Stop
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_READOPTION_JOB_ATTEMPT_H_
