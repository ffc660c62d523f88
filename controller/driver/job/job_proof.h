// The proof of a job's export, while its gang is there: what was written is read back by the ranks
// and compared with what they trained.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/config/job_spec.h"
#include "controller/driver/job/job_export.h"
#include "controller/driver/output/proof_plan.h"
#include "controller/driver/records/deps.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/training.h"
#include "controller/gang/gang_session.h"

namespace coxswain::driver {

// Loop thread only.
class JobProof {
 public:
  struct Parts {  // all outlive it
    const config::JobSpec* spec = nullptr;
    JobExport* exported = nullptr;
    const std::shared_ptr<gang::GangSession>* session = nullptr;  // the driver's
  };
  struct Wanted {
    Training* training = nullptr;  // lives until Stop
    std::shared_ptr<const Curriculum> curriculum;
    double load_seconds = 0;  // that its gang took to form; 0: not known
  };

  struct Events {
    std::function<void(const v1::Error&)> failed;  // the export is not what was trained
    // Its gang has commands of the controller before, about files that are not these: it must go.
    std::function<void()> outdated;
  };

  JobProof(const Deps& deps, const Parts& parts, Events events)
      : deps_(deps), parts_(parts), events_(std::move(events)) {}

  // Writes the export aside, then asks. Whatever cannot be asked is skipped by name, and the
  // training ends.
  void Want(const Wanted& wanted);
  void Answered(const ProofAnswers& answers);
  // Its gang goes: nothing is asked any more.
  void Stop();

 private:
  void OnStaged(const StagedAttempt& staged);
  void OnTime();
  void TellFailure(const absl::Status& judged);
  void End();  // the training has its last command
  ProofCost Cost() const;

  const Deps deps_;
  const Parts parts_;
  const Events events_;
  Wanted wanted_;
  std::optional<ProofPlan> plan_;
  std::string cut_;  // why the asking was cut; empty: it was not
  int64_t began_ns_ = 0;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_
