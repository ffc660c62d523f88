// The uploads of several contents at a time, over a bounded number of connections.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_UPLOAD_RUN_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_UPLOAD_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/upload/lfs_upload.h"

namespace coxswain::hub {

// One thread reads and sends all bytes. Run once.
class UploadRun {
 public:
  // `moved` is called ten times a second with the bytes of all contents that the Hub has or that
  // are on their way; both may be empty.
  UploadRun(const PushPlace& place, std::function<bool()> cancelled,
            std::function<void(int64_t there)> moved)
      : place_(place), cancelled_(std::move(cancelled)), moved_(std::move(moved)) {}

  // Before Run. `file` outlives the run. Contents must differ.
  void Add(PushFile* file, LfsObject object) {
    idle_.push_back(std::make_unique<LfsUpload>(place_, file, std::move(object)));
  }

  // Until the Hub has all contents; what it had already is not sent. Errors as PushFailureOf and
  // AskBatch; Aborted: a file changed; Cancelled.
  absl::Status Run();
  int64_t sent_bytes() const { return sent_; }  // over the network, also in vain

 private:
  using Time = LfsUpload::Time;

  absl::Status AskForAddresses();
  void StartCalls();
  void StartCall(LfsUpload* upload, size_t index);
  void ForgetDone();
  void Report(bool last);

  const PushPlace& place_;
  const std::function<bool()> cancelled_;
  const std::function<void(int64_t there)> moved_;
  std::vector<std::unique_ptr<LfsUpload>> idle_;
  std::vector<std::unique_ptr<LfsUpload>> active_;  // of which an address is known, or was
  int64_t there_ = 0;                               // bytes of uploads that are done
  int64_t sent_ = 0;
  Time reported_ = {};
  absl::Status failed_;               // of a call
  std::unique_ptr<HttpCalls> calls_;  // ends before what its callbacks use
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_UPLOAD_RUN_H_
