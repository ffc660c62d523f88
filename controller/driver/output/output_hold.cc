#include "controller/driver/output/output_hold.h"

#include <utility>

#include "common/guarded.h"
#include "controller/checkpoint/staging.h"

namespace coxswain::driver {

OutputHold::OutputHold(const Deps& deps, std::string job, std::string directory,
                       std::function<void(const absl::Status&)> lost)
    : deps_(deps), job_(std::move(job)), directory_(std::move(directory)), lost_(std::move(lost)) {}

std::shared_ptr<OutputClaim> OutputHold::Claim() {
  if (claim_ != nullptr) return claim_;
  claim_ = std::make_shared<OutputClaim>(
      deps_.files, directory_,
      OwnerHere(deps_.journal->store()->Id(), deps_.registry->term(), job_));
  deps_.loop->After(kClaimRenewal, life_.Wrap([this] { Renew(); }));
  return claim_;
}

void OutputHold::Renew() {
  auto status = std::make_shared<absl::Status>();
  deps_.loop->Offload(Lane::kFiles,
                      GuardedInto(status, [claim = claim_, status] { *status = claim->Renew(); }),
                      life_.Wrap([this, status] {
                        deps_.loop->After(kClaimRenewal, life_.Wrap([this] { Renew(); }));
                        // Other errors are the storage's: who writes there finds them.
                        if (absl::IsAborted(*status)) lost_(*status);
                      }));
}

void OutputHold::LetGo(std::function<void()> gone) {
  if (claim_ == nullptr) return;
  letting_go_ = true;
  life_.Reset();
  claim_->Close();
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      [files, directory = directory_, claim = std::exchange(claim_, nullptr)] {
        // What stays is swept by the next owner.
        claim->WhileHeld([&] { return checkpoint::SweepStaging(files, directory); }).IgnoreError();
        claim->Release();
      },
      life_.Wrap([this, gone = std::move(gone)] {
        letting_go_ = false;
        gone();
      }));
}

}  // namespace coxswain::driver
