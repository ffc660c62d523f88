#include "controller/driver/output/output_claim.h"

#include <unistd.h>

#include <cmath>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/guarded.h"
#include "common/status_macros.h"
#include "controller/checkpoint/staging.h"
#include "controller/failure/errors.h"
#include "controller/folders/output_place.h"

namespace coxswain::driver {
namespace {

std::string PathIn(const std::string& output_dir) {
  return absl::StrCat(output_dir, "/", kClaimName);
}

std::string Short(const std::string& store) { return store.substr(0, 8); }

std::string Describe(const OutputOwner& owner) {
  return absl::StrCat("host ", owner.host, ", process ", owner.pid, ", store ", Short(owner.store),
                      ", term ", owner.term);
}

// `why`: how one knows that the owner lives.
absl::Status Refusal(const std::string& output_dir, const std::optional<OutputOwner>& owner,
                     const OutputOwner& me, const std::string& why) {
  const std::string path = PathIn(output_dir);
  if (!owner) {
    return absl::UnavailableError(absl::StrCat("checkpoint.output_dir ", output_dir,
                                               ": another process holds ", path, " ", why));
  }
  const bool mine = owner->store == me.store;
  const std::string message = absl::StrCat(
      "checkpoint.output_dir ", output_dir, " belongs to job ", owner->job, " of ",
      mine ? "this" : "another", " controller (", Describe(*owner), "), which ", why,
      ". This is job ", me.job, " (", Describe(me),
      "). Wait until that job has ended, cancel it there, or give another checkpoint.output_dir; "
      "when that controller is gone for good, remove ",
      path);
  return mine ? absl::UnavailableError(message) : absl::FailedPreconditionError(message);
}

// May `me` take over what `owner` left without a lock?
absl::Status Judge(Files* files, const std::string& output_dir, const OutputOwner& owner,
                   const OutputOwner& me, bool locks_work) {
  const bool earlier_start = owner.store == me.store && owner.term <= me.term;
  const bool dead = locks_work && owner.boot == me.boot;
  if (earlier_start || dead) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double age, files->AgeSeconds(PathIn(output_dir)));
  const auto lease = static_cast<double>(kClaimLease.count());
  if (age >= lease) return absl::OkStatus();
  return Refusal(output_dir, owner, me,
                 absl::StrCat("gave a sign of life ", std::llround(age),
                              " s ago (without one it loses the directory in ",
                              std::llround(std::ceil(lease - age)), " s)"));
}

std::optional<OutputOwner> ReadOwner(Files* files, const std::string& path) {
  const absl::StatusOr<std::string> text = files->Read(path);
  return text.ok() ? ParseOwner(*text) : std::nullopt;
}

}  // namespace

OutputOwner OwnerHere(const std::string& store, uint64_t term, const std::string& job) {
  OutputOwner owner{.store = store, .term = term, .job = job};
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  owner.host = host;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> owner.boot;
  owner.pid = getpid();
  return owner;
}

std::string ToJson(const OutputOwner& owner) {
  const nlohmann::json json = {{"store", owner.store}, {"term", owner.term}, {"job", owner.job},
                               {"host", owner.host},   {"boot", owner.boot}, {"pid", owner.pid}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<OutputOwner> ParseOwner(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    return OutputOwner{.store = json.at("store"),
                       .term = json.at("term"),
                       .job = json.at("job"),
                       .host = json.at("host"),
                       .boot = json.at("boot"),
                       .pid = json.at("pid")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

absl::Status CheckUnclaimed(Files* files, const std::string& output_dir, const OutputOwner& me) {
  const std::string path = PathIn(output_dir);
  if (!files->Exists(path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const bool held, files->IsHeld(path));
  const std::optional<OutputOwner> owner = ReadOwner(files, path);
  if (held) return Refusal(output_dir, owner, me, "is running");
  if (!owner) return absl::OkStatus();
  return Judge(files, output_dir, *owner, me, /*locks_work=*/true);
}

OutputClaim::OutputClaim(Files* files, std::string output_dir, OutputOwner me)
    : files_(files),
      output_dir_(std::move(output_dir)),
      path_(PathIn(output_dir_)),
      me_(std::move(me)) {}

absl::Status OutputClaim::Take() {
  MutexLock lock(mu_);
  if (closed_) return absl::CancelledError("the output directory is not needed any more");
  if (held_ != nullptr && CheckHeld().ok()) return held_->Touch();
  held_.reset();
  RETURN_IF_ERROR(files_->MakeDirs(output_dir_));
  ASSIGN_OR_RETURN(std::unique_ptr<HeldFile> file, files_->Hold(path_));
  const std::optional<OutputOwner> owner = ReadOwner(files_, path_);
  if (file == nullptr) return Refusal(output_dir_, owner, me_, "is running");
  if (owner) RETURN_IF_ERROR(Judge(files_, output_dir_, *owner, me_, file->exclusive()));
  RETURN_IF_ERROR(file->Write(ToJson(me_)));
  held_ = std::move(file);
  return absl::OkStatus();
}

absl::Status OutputClaim::CheckHeld() {
  const auto lost = [this](const std::string& what) {
    return absl::AbortedError(absl::StrCat("checkpoint.output_dir ", output_dir_, ": ", what));
  };
  if (held_ == nullptr) return lost("this job does not own it any more");
  if (!held_->InPlace()) return lost(absl::StrCat("the lock file ", path_, " was removed"));
  ASSIGN_OR_RETURN(const std::string text, files_->Read(path_));
  const std::optional<OutputOwner> owner = ParseOwner(text);
  if (owner == me_) return absl::OkStatus();
  return lost(owner ? absl::StrCat("job ", owner->job, " took it over (", Describe(*owner), ")")
                    : absl::StrCat("the lock file ", path_, " was written over"));
}

absl::Status OutputClaim::Renew() {
  MutexLock lock(mu_);
  if (held_ == nullptr) return absl::OkStatus();
  const absl::Status held = CheckHeld();
  if (absl::IsAborted(held)) held_.reset();
  return held.ok() ? held_->Touch() : held;
}

absl::Status OutputClaim::WhileHeld(const std::function<absl::Status()>& work) {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckHeld());
  return work();
}

void OutputClaim::Release() {
  MutexLock lock(mu_);
  if (held_ != nullptr && CheckHeld().ok()) held_->Remove().IgnoreError();  // else taken over
  held_.reset();
}

std::shared_ptr<OutputClaim> OutputHold::Claim() {
  if (claim_ != nullptr) return claim_;
  claim_ = std::make_shared<OutputClaim>(
      job_.deps.files, job_.spec.output_dir,
      OwnerHere(job_.deps.journal->store()->Id(), job_.deps.registry->term(), job_.record.id()));
  job_.deps.loop->After(kClaimRenewal, life_.Wrap([this] { Renew(); }));
  return claim_;
}

void OutputHold::Renew() {
  auto status = std::make_shared<absl::Status>();
  job_.deps.loop->Offload(
      Lane::kFiles, GuardedInto(status, [claim = claim_, status] { *status = claim->Renew(); }),
      life_.Wrap([this, status] {
        job_.deps.loop->After(kClaimRenewal, life_.Wrap([this] { Renew(); }));
        // Other errors are the storage's: who writes there finds them.
        if (absl::IsAborted(*status)) Lost(*status);
      }));
}

void OutputHold::Lost(const absl::Status& status) {
  if (job_.session == nullptr) return;  // nothing is written now
  job_.listener.OnAttemptFailed(failure::MakeError(
      absl::UnavailableError(std::string(status.message())), {.phase = "output"}));
}

void OutputHold::LetGo(std::function<void()> gone) {
  if (claim_ == nullptr) return;
  letting_go_ = true;
  life_.Reset();
  claim_->Close();
  Files* files = job_.deps.files;
  job_.deps.loop->Offload(
      Lane::kFiles,
      [files, directory = job_.spec.output_dir, claim = std::exchange(claim_, nullptr)] {
        // What stays is swept by the next owner.
        claim->WhileHeld([&] { return checkpoint::LeaveStaging(files, directory); }).IgnoreError();
        claim->Release();
      },
      life_.Wrap([this, gone = std::move(gone)] {
        letting_go_ = false;
        gone();
      }));
}

absl::Status EnterOutput(Files* files, OutputClaim* output, const config::JobSpec& job) {
  RETURN_IF_ERROR(output->Take());
  RETURN_IF_ERROR(CheckReplaceable(files, job));
  return output->WhileHeld([&] { return checkpoint::SweepStaging(files, job.output_dir); });
}

}  // namespace coxswain::driver
