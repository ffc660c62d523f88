// The proof of a job's export, while its gang is there: what was written is read back by the ranks
// and compared with what they trained.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "controller/driver/job/job_export.h"
#include "controller/driver/output/proof_plan.h"
#include "controller/driver/records/job_context.h"
#include "controller/driver/training/curriculum.h"
#include "controller/driver/training/training.h"

namespace coxswain::driver {

// Loop thread only.
class JobProof {
 public:
  struct Wanted {
    Training* training = nullptr;  // lives until Stop
    std::shared_ptr<const Curriculum> curriculum;
    double load_seconds = 0;  // that its gang took to form; 0: not known
  };
  // Why a gang goes that has commands of the controller before, about files that are not these.
  static constexpr char kOutdated[] =
      "an export was being read back, which the next gang does again";

  // `exported` outlives it.
  JobProof(const JobContext& job, JobExport* exported) : job_(job), exported_(exported) {}

  // Writes the export aside, then asks. Whatever cannot be asked is skipped by name, and the
  // training ends. Leads to OnHopeless where the export is not what was trained, and to OnGangLost
  // where the gang is of kOutdated.
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

  const JobContext& job_;
  JobExport* const exported_;
  Wanted wanted_;
  std::optional<ProofPlan> plan_;
  std::string cut_;  // why the asking was cut; empty: it was not
  int64_t began_ns_ = 0;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PROOF_H_
