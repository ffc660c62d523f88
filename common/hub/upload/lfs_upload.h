// One content on its way to the Hub's store of large files.
#ifndef COXSWAIN_COMMON_HUB_UPLOAD_LFS_UPLOAD_H_
#define COXSWAIN_COMMON_HUB_UPLOAD_LFS_UPLOAD_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/api/http_calls.h"
#include "common/hub/api/hub_settings.h"
#include "common/hub/api/repository.h"
#include "common/hub/api/retries.h"
#include "common/hub/upload/lfs_batch.h"
#include "common/hub/upload/push_file.h"

namespace coxswain::hub {

// What all contents of a push share. Outlives them.
struct PushPlace {
  const Settings& settings;
  const Repository& repository;
};

// Its calls are those of its parts, in any order; then the list of parts, where it has several;
// then the verification, where the Hub wants one. Each call that NextCall names is made by CallOf
// and told to Ended, until done().
class LfsUpload {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `file` has the content and outlives it.
  LfsUpload(const PushPlace& place, PushFile* file, LfsObject object);

  // The Hub says anew where it goes. What was sent to other addresses counts no more. Not while
  // running().
  void Take(LfsAction action);

  // The addresses expired, or the Hub forgot what it was sent: Take comes next.
  bool expired() const { return expired_; }
  bool done() const;
  bool running() const;  // a call is
  int64_t sent() const;  // of object().bytes, that are there or on their way
  const LfsObject& object() const { return object_; }

  // A call whose time has come and that is not made yet.
  std::optional<size_t> NextCall(Time now) const;
  // Without on_end, which is for Ended.
  HttpCall CallOf(size_t index);
  // What came of the call. An error is of the whole push; Aborted: the file changed.
  absl::Status Ended(size_t index, const HttpEnd& end, Time now);

 private:
  struct Step {
    explicit Step(const Limits& limits) : retries(limits) {}
    bool running = false;
    bool done = false;
    int64_t begin = 0, bytes = 0;  // of a part
    int64_t sent = 0;
    std::string etag = {};  // of a part that is done
    Retries retries;
    Time due = {};
  };

  size_t parts() const { return steps_.size() - 2; }
  HttpCall PutOf(size_t index);
  std::string PartList() const;
  bool MayHaveExpired(size_t index, int status) const;

  const PushPlace& place_;
  PushFile* const file_;
  const LfsObject object_;
  LfsAction action_;
  std::vector<Step> steps_;  // its parts, the list of them, the verification
  std::string text_;         // of the POST that runs
  int expiries_ = 0;
  bool expired_ = true;
};

}  // namespace coxswain::hub

#endif  // COXSWAIN_COMMON_HUB_UPLOAD_LFS_UPLOAD_H_
