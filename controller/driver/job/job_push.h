// EXPORTING, its last part: what was exported goes to the Hub.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_

#include <atomic>
#include <memory>
#include <string>

#include "controller/driver/records/job_context.h"

namespace coxswain::driver {

// Loop thread only.
class JobPush {
 public:
  explicit JobPush(const JobContext& job) : job_(job) {}
  ~JobPush() { Stop(); }

  bool Wanted() const { return !job_.spec.push_to_hub.repo.empty(); }
  // In lane kTransfers, of the directory that the job's record names: the merged model where there
  // is one. What an attempt before has sent is not sent again. Leads to OnPushed.
  void Start();
  void Stop();  // the attempt ends soon, none is tried any more

 private:
  const JobContext& job_;
  std::shared_ptr<std::atomic<bool>> cancelled_;  // as the lane reads it; null: it never began
  Lifetime lifetime_;
};

// What `cox push` does with a push that failed: "...; the export is whole in DIR, and `cox push DIR
// REPO` sends it".
std::string WithWayOut(const std::string& message, const std::string& directory,
                       const std::string& repository);

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_PUSH_H_
