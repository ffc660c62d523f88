// The output directory of a job: claimed with the first attempt to write there, let go at the end.
#include <utility>

#include "controller/checkpoint/staging.h"
#include "controller/driver/job_driver.h"

namespace coxswain::driver {

bool JobDriver::HoldsOutput() const {
  if (letting_output_go_) return true;
  switch (phase()) {
    case v1::JOB_STATE_ADMITTED:
    case v1::JOB_STATE_FORMING:
    case v1::JOB_STATE_RUNNING:
    case v1::JOB_STATE_DRAINING:
    case v1::JOB_STATE_RECOVERING:
    case v1::JOB_STATE_EXPORTING:
      return true;
    default:
      return false;
  }
}

// To be taken on the pool.
std::shared_ptr<OutputClaim> JobDriver::ClaimOutput() {
  if (output_ != nullptr) return output_;
  output_ = std::make_shared<OutputClaim>(
      deps_.files, spec_.output_dir,
      OwnerHere(deps_.journal->store()->Id(), deps_.registry->term(), job().id()));
  deps_.loop->After(kClaimRenewal, output_life_.Wrap([this] { RenewOutput(); }));
  return output_;
}

void JobDriver::RenewOutput() {
  auto status = std::make_shared<absl::Status>();
  deps_.loop->Offload(
      Lane::kFiles, [output = output_, status] { *status = output->Renew(); },
      output_life_.Wrap([this, status] {
        deps_.loop->After(kClaimRenewal, output_life_.Wrap([this] { RenewOutput(); }));
        // Other errors are the storage's: who writes there finds them.
        if (!absl::IsAborted(*status) || gang_ == nullptr) return;
        AttemptFailed(
            MakeError(absl::UnavailableError(std::string(status->message())), {.phase = "output"}));
      }));
}

void JobDriver::LetOutputGo() {
  if (output_ == nullptr || HoldsOutput()) return;
  letting_output_go_ = true;
  output_life_.Reset();
  output_->Close();
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      [files, output_dir = spec_.output_dir, output = std::exchange(output_, nullptr)] {
        output->WhileHeld([&] { return checkpoint::SweepStaging(files, output_dir); })
            .IgnoreError();
        output->Release();
      },
      output_life_.Wrap([this] {
        letting_output_go_ = false;
        hooks_.reschedule();
      }));
}

}  // namespace coxswain::driver
