// PREPARING: what `auto` under spec.resources comes to, and tokens, bins and steps of the job.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_PREPARATION_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_PREPARATION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/curriculum.h"
#include "controller/driver/deps.h"
#include "controller/driver/job_record.h"
#include "controller/driver/output_hold.h"

namespace coxswain::driver {

struct ResourceChoice;

// Loop thread only. Data and recipe are made in a lane of their own; the curriculum that comes of
// it is kept until the job has ended.
class JobPreparation {
 public:
  struct Events {
    // There is a curriculum, or why none can be made.
    std::function<void(const std::optional<v1::Error>& failed)> done;
    std::function<void(const v1::Error&)> refused;  // the job's rules allow no such resources
  };

  // `record`, `spec` and `output` outlive it. What is chosen becomes part of `spec`.
  JobPreparation(const Deps& deps, JobRecord* record, config::JobSpec* spec, OutputHold* output,
                 Events events);
  ~JobPreparation();

  // One of the events comes, at once where the curriculum is known: paused and resumed under one
  // controller.
  void Start();
  // None comes any more.
  void Stop();

  // Its data is prepared, and it waits until workers live by which auto resources can be chosen.
  bool WaitsForChoice() const { return waits_for_choice_; }
  void LookForWorkers();  // whether they do, for one that waits for that

  const std::shared_ptr<const Curriculum>& curriculum() const { return curriculum_; }  // null: none
  void Forget() { curriculum_.reset(); }
  void ForgetIfDamaged();  // so that it is made again, from files that are made again

 private:
  bool HasResources();  // chooses them where that can be done
  config::JobSpec SpecOfData() const;
  bool TakeResources(const ResourceChoice& choice);
  void Prepare();
  void TakeDataRules();
  void Offload(bool chosen, int64_t unended);
  void OnPrepared(const absl::StatusOr<std::shared_ptr<const Curriculum>>& result);
  void SayPrepared();

  const Deps deps_;
  JobRecord* const record_;
  config::JobSpec* const spec_;
  OutputHold* const output_;
  const Events events_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // as the lane reads it; null: it never began
  bool waits_for_choice_ = false;
  std::shared_ptr<const Curriculum> curriculum_;
  Loop::TimerId choice_timer_ = 0;
  Lifetime lifetime_;  // cut by Stop
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_PREPARATION_H_
