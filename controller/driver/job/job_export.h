// EXPORTING: from the best intact checkpoint of a job to what its users load.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/job_context.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::driver {

struct ExportAttempt {
  absl::StatusOr<ExportedTo> result;
  int64_t step = 0;      // of the checkpoint
  bool damaged = false;  // all of them, or there is none: waiting mends none
  std::vector<std::string> warnings;
};

struct StagedAttempt {
  absl::StatusOr<StagedExport> result;
  int64_t step = 0;            // of the checkpoint
  std::string checkpoint_dir;  // likewise
};

// Where to export from, best first: the newest, or with early stopping the lowest evaluation.
std::vector<const v1::CheckpointInfo*> CheckpointsToExport(const v1::Job& job,
                                                           const config::JobSpec& spec);

// Loop thread only.
class JobExport {
 public:
  explicit JobExport(const JobContext& job) : job_(job) {}

  // In lane kExport. A checkpoint that does not verify is passed over with a warning. What is kept
  // is put in place; else an export is written and said to be unverified. Leads to OnExported.
  // While another owner has the output directory, the attempt is made again.
  void Start();
  void Stop();  // none is tried any more, and none is kept

  // While the gang is there: writes an export aside. `staged` is called once.
  void Stage(std::function<void(const StagedAttempt&)> staged);
  // The newest staged one, with what its verification has come to, is what Start puts in place.
  void Keep(StagedExport staged);
  void set_unverified(std::string reason) { unverified_ = std::move(reason); }

 private:
  struct Work;
  struct Written {
    ExportInput input;
    int64_t step = 0;
  };
  static absl::StatusOr<ExportInput> FromIntact(const Work& work, ExportAttempt* attempt);
  static absl::StatusOr<ExportedTo> Export(const Work& work, ExportAttempt* attempt);
  absl::StatusOr<std::shared_ptr<Work>> MakeWork();
  std::string WhyUnverified() const;
  void OnTried(const ExportAttempt& attempt);

  const JobContext& job_;
  bool waits_ = false;  // for the output directory, which is told once
  std::optional<Written> staged_;
  bool kept_ = false;       // staged_ is whole
  std::string unverified_;  // why; empty: nobody has said
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_EXPORT_H_
