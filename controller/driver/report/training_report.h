// Turns committed steps and evaluations into progress, history and metrics of a job.
#ifndef COXSWAIN_CONTROLLER_DRIVER_REPORT_TRAINING_REPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_REPORT_TRAINING_REPORT_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "common/config/job_spec.h"
#include "controller/checkpoint/run_state.h"
#include "controller/driver/records/deps.h"
#include "controller/driver/records/job_record.h"
#include "controller/driver/training/batch.h"
#include "controller/driver/training/commit_step.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/replays.h"
#include "controller/driver/training/step_rate.h"
#include "controller/gang/gang.h"

namespace coxswain::driver {

// Reports the training of one gang.
class TrainingReport {
 public:
  struct Args {
    JobRecord* record = nullptr;
    const config::JobSpec* spec = nullptr;
    std::shared_ptr<const Curriculum> curriculum;
    const gang::Gang* gang = nullptr;
    double flops_per_token = 0;           // of the plan
    Replays replays;                      // of this gang
    double* committed_seconds = nullptr;  // of steps done for the first time, all gangs of the job
  };

  // Everything that `args` points to outlives this object.
  TrainingReport(const Deps& deps, Args args);

  // Returns a bug when a replayed step has other bits than the recorded one (driver-6).
  std::optional<v1::Error> OnStep(const StepResult& result, const Batch& batch,
                                  const gang::InFlight& command, const checkpoint::RunState& run);
  void OnEval(const checkpoint::EvalPoint& point, const std::optional<v1::Preference>& preference,
              bool is_best, const checkpoint::RunState& run);

 private:
  void Record(const StepResult& result, const Batch& batch, const gang::InFlight& command);
  void Measure(const StepResult& result, double seconds);
  std::optional<v1::Error> CheckReplay(const StepResult& result);

  const Deps deps_;
  const Args args_;
  StepRate rate_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_REPORT_TRAINING_REPORT_H_
