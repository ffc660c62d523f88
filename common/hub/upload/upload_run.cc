#include "common/hub/upload/upload_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/api/retries.h"
#include "common/hub/upload/lfs_batch.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kUploadLook{100};  // at cancellation, progress and calls that are due
constexpr size_t kAddressesAtOnce = 64;   // they expire

}  // namespace

absl::Status UploadRun::Run() {
  ASSIGN_OR_RETURN(calls_, HttpCalls::Make(place_.settings));
  while (!idle_.empty() || !active_.empty()) {
    if (cancelled_ && cancelled_()) {
      return absl::CancelledError(
          absl::StrCat("the push to ", NameOf(place_.repository), " was cancelled"));
    }
    RETURN_IF_ERROR(AskForAddresses());
    StartCalls();
    if (calls_->running() > 0) {
      RETURN_IF_ERROR(calls_->Wait(kUploadLook));
    } else if (!active_.empty()) {
      (void)Pause(milliseconds(20), cancelled_);
    }
    RETURN_IF_ERROR(failed_);
    ForgetDone();
    Report(/*last=*/false);
  }
  Report(/*last=*/true);
  return absl::OkStatus();
}

// For the next contents when few are left, and for those whose addresses expired.
absl::Status UploadRun::AskForAddresses() {
  std::vector<LfsUpload*> asked;
  for (const std::unique_ptr<LfsUpload>& upload : active_) {
    if (upload->expired() && !upload->running()) asked.push_back(upload.get());
  }
  const bool few = active_.size() < static_cast<size_t>(place_.settings.limits.connections);
  while (few && active_.size() < kAddressesAtOnce && !idle_.empty()) {
    active_.push_back(std::move(idle_.back()));
    idle_.pop_back();
    asked.push_back(active_.back().get());
  }
  if (asked.empty()) return absl::OkStatus();
  std::vector<LfsObject> objects;
  for (const LfsUpload* upload : asked) objects.push_back(upload->object());
  ASSIGN_OR_RETURN(std::vector<LfsAction> actions,
                   AskBatch(place_.settings, place_.repository, objects, cancelled_));
  for (size_t i = 0; i < asked.size(); ++i) asked[i]->Take(std::move(actions[i]));
  ForgetDone();
  return absl::OkStatus();
}

void UploadRun::StartCalls() {
  const Time now = steady_clock::now();
  for (const std::unique_ptr<LfsUpload>& upload : active_) {
    while (calls_->running() < place_.settings.limits.connections) {
      const std::optional<size_t> index = upload->NextCall(now);
      if (!index) break;
      StartCall(upload.get(), *index);
    }
  }
}

void UploadRun::StartCall(LfsUpload* upload, size_t index) {
  HttpCall call = upload->CallOf(index);
  const bool content = call.body->method == "PUT";
  call.body->read = [this, content, read = std::move(call.body->read)](
                        int64_t offset, char* to, size_t most) -> absl::StatusOr<size_t> {
    absl::StatusOr<size_t> got = read(offset, to, most);
    if (got.ok() && content) sent_ += static_cast<int64_t>(*got);
    return got;
  };
  call.on_end = [this, upload, index](const HttpEnd& end) {
    const absl::Status status = upload->Ended(index, end, steady_clock::now());
    if (failed_.ok()) failed_ = status;
  };
  calls_->Start(std::move(call));
}

void UploadRun::ForgetDone() {
  std::erase_if(active_, [this](const std::unique_ptr<LfsUpload>& upload) {
    if (!upload->done()) return false;
    there_ += upload->object().bytes;
    return true;
  });
}

void UploadRun::Report(bool last) {
  const Time now = steady_clock::now();
  if (!moved_ || (!last && now - reported_ < kUploadLook)) return;
  reported_ = now;
  int64_t there = there_;
  for (const std::unique_ptr<LfsUpload>& upload : active_) there += upload->sent();
  moved_(there);
}

}  // namespace coxswain::hub
