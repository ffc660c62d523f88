// One owner of an output directory: the job of the controller that holds the lock file there.
//
// The file says who: store id and term of the controller, job, host, process. Its lock is the
// kernel's, so it ends with the process and does not depend on the path by which a directory is
// named. Who finds the file without a lock takes it over
// - when its store id is one's own and its term not above one's own: an earlier start of oneself;
// - when it was written under this very kernel, which would hold the lock of a living process;
// - else when nobody touched it for kClaimLease (an owner touches it every kClaimRenewal): file
//   systems without locks, and those whose locks other hosts do not see.
#ifndef COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_CLAIM_H_
#define COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_CLAIM_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/config/job_spec.h"
#include "common/mutex.h"
#include "controller/driver/records/job_context.h"
#include "controller/runtime/files.h"

namespace coxswain::driver {

inline constexpr char kClaimName[] = ".coxswain-owner";
inline constexpr std::chrono::seconds kClaimLease{60};
inline constexpr std::chrono::seconds kClaimRenewal{15};

struct OutputOwner {
  std::string store;  // Store::Id
  uint64_t term = 0;
  std::string job;
  std::string host = {};
  std::string boot = {};  // of the kernel: containers of one host share it
  int64_t pid = 0;
  bool operator==(const OutputOwner&) const = default;
};

// An owner in this process.
OutputOwner OwnerHere(const std::string& store, uint64_t term, const std::string& job);
std::string ToJson(const OutputOwner& owner);
std::optional<OutputOwner> ParseOwner(const std::string& json);

// OK when a job of `me` could take `output_dir` now, which need not exist. Changes nothing. Else
// FailedPrecondition: another controller's, both are named; Unavailable: this controller's, or an
// earlier start of it that lives.
absl::Status CheckUnclaimed(Files* files, const std::string& output_dir, const OutputOwner& me);

// A claim is thread-safe; all but Close work with files. Destruction ends the lock and leaves the
// file.
class OutputClaim {
 public:
  OutputClaim(Files* files, std::string output_dir, OutputOwner me);

  // Makes the directory and takes it; errors as CheckUnclaimed. Held already: Renew. Cancelled
  // after Close.
  absl::Status Take();
  // Says that the owner lives; not held: nothing. Aborted: the directory has another owner, or lost
  // its lock file, and the claim ends.
  absl::Status Renew();
  // `work` runs while the claim is held, and Release waits for it. Aborted: it is not held.
  absl::Status WhileHeld(const std::function<absl::Status()>& work);
  void Close() { closed_ = true; }  // no Take any more
  void Release();                   // removes the lock file; not held: nothing

 private:
  absl::Status CheckHeld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Files* const files_;
  const std::string output_dir_, path_;
  const OutputOwner me_;
  std::atomic<bool> closed_ = false;
  Mutex mu_;
  std::unique_ptr<HeldFile> held_ ABSL_GUARDED_BY(mu_);
};

// A job's hold on its output directory: claimed with its first attempt to write there, renewed
// while it has it, and let go at the end.

// Loop thread only.
class OutputHold {
 public:
  explicit OutputHold(const JobContext& job) : job_(job) {}

  // The claim, to be taken in a lane. Another owner that takes the directory ends the attempt of a
  // gang: OnAttemptFailed.
  std::shared_ptr<OutputClaim> Claim();
  const std::shared_ptr<OutputClaim>& claim() const { return claim_; }  // null: not claimed

  // Sweeps what is left in .staging, with it where nothing stays, and gives the directory up, then
  // calls `gone`. Nothing where it is not claimed.
  void LetGo(std::function<void()> gone);
  bool letting_go() const { return letting_go_; }

  // Files::Identity of the directory; empty: not known yet.
  const std::string& identity() const { return identity_; }
  void set_identity(std::string identity) { identity_ = std::move(identity); }

 private:
  void Renew();
  void Lost(const absl::Status& status);

  const JobContext& job_;
  std::shared_ptr<OutputClaim> claim_;
  std::string identity_;
  bool letting_go_ = false;
  Lifetime life_;  // cut when the directory is let go
};

// The first step of a run or an export in the output directory.

// Takes `output`, refuses what CheckReplaceable refuses, and sweeps .staging. Runs in a lane.
absl::Status EnterOutput(Files* files, OutputClaim* output, const config::JobSpec& job);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_OUTPUT_OUTPUT_CLAIM_H_
