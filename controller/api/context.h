// What the operations of the Jobs service work on. Loop thread only.
#ifndef COXSWAIN_CONTROLLER_API_CONTEXT_H_
#define COXSWAIN_CONTROLLER_API_CONTEXT_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "common/config/parser/job_parser.h"
#include "common/identity.h"
#include "controller/driver/job/job_table.h"
#include "controller/driver/records/deps.h"
#include "controller/sources/pin_sources.h"
#include "coxswain/v1/common.pb.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::access {
class AuditLog;
class Door;
class Tokens;
}  // namespace coxswain::access

namespace coxswain::uploads {
class UploadStore;
}

namespace coxswain::api {

// Tells open Watch and Logs calls that a job has news. Loop thread only.
class EventHub {
 public:
  // `callback` runs after commits with events of `job`, as long as the returned token lives.
  std::shared_ptr<void> Listen(const std::string& job, std::function<void()> callback) {
    auto entry = std::make_shared<std::function<void()>>(std::move(callback));
    listeners_.emplace(job, entry);
    return entry;
  }
  void Notify(const std::set<std::string>& jobs) {
    std::vector<std::shared_ptr<std::function<void()>>> live;
    for (auto it = listeners_.begin(); it != listeners_.end();) {
      auto entry = it->second.lock();
      if (entry && jobs.contains(it->first)) live.push_back(entry);
      it = entry ? std::next(it) : listeners_.erase(it);
    }
    for (const auto& entry : live) (*entry)();
  }

 private:
  std::multimap<std::string, std::weak_ptr<std::function<void()>>> listeners_;
};

struct Context {
  driver::Deps deps;
  driver::JobTable* jobs = nullptr;
  EventHub* events = nullptr;
  v1::BuildInfo build;
  const access::Door* door = nullptr;  // what every call passes
  access::Tokens* tokens = nullptr;
  uploads::UploadStore* uploads = nullptr;
  access::AuditLog* audit = nullptr;  // null: nothing is recorded
  std::function<std::string()> draw_job_hex = [] { return RandomHex(16); };  // behind its name
  std::string pages;  // host:port of the status page; empty: it serves none
  // What `cox plan` computes for such workers, in a lane; Cancelled soon after `cancelled` says so.
  std::function<absl::StatusOr<v1::PlanResponse>(const config::JobSpec&, const driver::WorkerFacts&,
                                                 const std::function<bool()>& cancelled)>
      plan;
  // The job with the commits of what it names of the Hub, asked for with the token that serves
  // `owner` (Job.owner), in a lane; Cancelled soon after `cancelled` says so.
  std::function<absl::StatusOr<sources::PinnedJob>(config::ParsedJob, const std::string& owner,
                                                   const std::function<bool()>& cancelled)>
      pin;
};

// Any thread, until the reply: whether the client cancelled the call, went away, or its deadline
// passed.
using Gone = std::function<bool()>;

// Called once, from the loop, with the response or the error.
template <typename Response>
using Reply = std::function<void(absl::StatusOr<Response>)>;

// The receiving end of a streaming call. Thread-safe.
template <typename Response>
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void Send(const Response& response) = 0;
  virtual void Finish(const absl::Status& status) = 0;  // after everything sent
  virtual bool open() const = 0;                        // neither finished nor cancelled
  virtual size_t pending() const = 0;                   // sent, not yet taken by the client
  // Runs on the loop whenever pending() has become 0, and when the client went away.
  virtual void OnRoom(std::function<void()> callback) = 0;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_CONTEXT_H_
