// PREPARING: fetches what the job names of the Hub, chooses `auto` resources, and makes the tokens,
// bins and steps of the job.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PREPARATION_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PREPARATION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/job/job_fetch.h"
#include "controller/driver/records/job_context.h"
#include "controller/driver/training/curriculum.h"

namespace coxswain::driver {

struct ResourceChoice;

// Loop thread only. A lane of its own makes data and recipe. The resulting curriculum is kept until
// the job has ended.
class JobPreparation {
 public:
  explicit JobPreparation(const JobContext& job) : job_(job), fetch_(job) {}
  ~JobPreparation() { Stop(); }

  // Leads to OnPrepared, or to OnHopeless where the job's rules allow no such resources. That comes
  // at once when the curriculum is known already, because the job was paused and resumed under this
  // controller. Chosen resources become part of the job's spec.
  void Start();
  // Neither comes after this.
  void Stop();

  // True when the data is prepared and no living workers allow a choice of auto resources yet.
  bool WaitsForChoice() const { return waits_for_choice_; }
  void LookForWorkers();  // chooses now, if the job waits and workers allow it

  const std::shared_ptr<const Curriculum>& curriculum() const { return curriculum_; }  // null: none
  void Forget() { curriculum_.reset(); }
  void ForgetIfDamaged();  // the next Start makes files and curriculum again

 private:
  void OnFetched(const std::optional<v1::Error>& failed);
  bool HasResources();  // chooses them where that can be done
  config::JobSpec SpecOfData() const;
  bool TakeResources(const ResourceChoice& choice);
  void Prepare();
  void TakeDataRules();
  void Offload(bool chosen, int64_t unended);
  void OnPrepared(const absl::StatusOr<std::shared_ptr<const Curriculum>>& result);
  void SayPrepared();

  const JobContext& job_;
  JobFetch fetch_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // as the lane reads it; null: it never began
  bool waits_for_choice_ = false;
  std::shared_ptr<const Curriculum> curriculum_;
  Loop::TimerId choice_timer_ = 0;
  Lifetime lifetime_;  // cut by Stop
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PREPARATION_H_
