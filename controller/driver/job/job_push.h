// EXPORTING, its last part: what was exported goes to the Hub.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/driver/records/deps.h"
#include "controller/driver/records/job_record.h"

namespace coxswain::driver {

// Loop thread only.
class JobPush {
 public:
  // `tried` is called with each attempt. `record` and `spec` outlive it.
  JobPush(const Deps& deps, JobRecord* record, const config::JobSpec* spec,
          std::function<void(const absl::StatusOr<PushedTo>&)> tried)
      : deps_(deps), record_(record), spec_(spec), tried_(std::move(tried)) {}
  ~JobPush() { Stop(); }

  bool Wanted() const { return !spec_->push_to_hub.repo.empty(); }
  // In lane kTransfers, of the directory that the job's record names: the merged model where there
  // is one. What an attempt before has sent is not sent again.
  void Start();
  void Stop();  // the attempt ends soon, none is tried any more

 private:
  const Deps deps_;
  JobRecord* const record_;
  const config::JobSpec* const spec_;
  const std::function<void(const absl::StatusOr<PushedTo>&)> tried_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // as the lane reads it; null: it never began
  Lifetime lifetime_;
};

// What `cox push` does with a push that failed: "...; the export is whole in DIR, and `cox push DIR
// REPO` sends it".
std::string WithWayOut(const std::string& message, const std::string& directory,
                       const std::string& repository);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_
