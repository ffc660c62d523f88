// A job's hold on its output directory: claimed with its first attempt to write there, renewed
// while it has it, and let go at the end.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_HOLD_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_HOLD_H_

#include <functional>
#include <memory>
#include <string>

#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/deps.h"

namespace coxswain::driver {

// Loop thread only.
class OutputHold {
 public:
  // `lost` is called when another owner has the directory.
  OutputHold(const Deps& deps, std::string job, std::string directory,
             std::function<void(const absl::Status&)> lost);

  // The claim, to be taken on the pool.
  std::shared_ptr<OutputClaim> Claim();
  const std::shared_ptr<OutputClaim>& claim() const { return claim_; }  // null: not claimed

  // Sweeps what is left there and gives the directory up, then calls `gone`. Nothing where it is
  // not claimed.
  void LetGo(std::function<void()> gone);
  bool letting_go() const { return letting_go_; }

  // Files::Identity of the directory; empty: not known yet.
  const std::string& identity() const { return identity_; }
  void set_identity(std::string identity) { identity_ = std::move(identity); }

 private:
  void Renew();

  const Deps deps_;
  const std::string job_;
  const std::string directory_;
  const std::function<void(const absl::Status&)> lost_;
  std::shared_ptr<OutputClaim> claim_;
  std::string identity_;
  bool letting_go_ = false;
  Lifetime life_;  // cut when the directory is let go
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_HOLD_H_
