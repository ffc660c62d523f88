// Takes dumps of a job's gang, keeps them as incidents, and reports them in the job's history.
#ifndef COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_INCIDENTS_H_
#define COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_INCIDENTS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json.hpp>

#include "controller/driver/records/job_context.h"
#include "controller/gang/gang_session.h"
#include "controller/incidents/incident.h"

namespace coxswain::driver {

struct IncidentReport {
  nlohmann::json document;  // incidents::IncidentJson
  std::string path;         // of its file; empty: it is not kept
};

// Loop thread only.
class JobIncidents {
 public:
  struct Request {
    incidents::Reason reason = incidents::Reason::kAsked;
    v1::Error error = {};         // of a failure
    std::vector<int> ranks = {};  // not empty
    std::chrono::milliseconds timeout{0};
    std::function<void()> taken = {};  // the ranks have answered or cannot; they may be aborted now
    // The dump is kept, or cannot be. Called even when the job is gone. May be empty.
    std::function<void(std::shared_ptr<const IncidentReport>)> kept = {};
  };

  explicit JobIncidents(const JobContext& job) : job_(job) {}

  void Take(const gang::GangSession& session, Request request);

 private:
  void Tell(const incidents::Incident& incident, const IncidentReport& report,
            const absl::Status& kept);

  const JobContext& job_;
  Lifetime lifetime_;
};

}  // namespace coxswain::driver

#endif  // COXSWAIN_CONTROLLER_DRIVER_JOB_JOB_INCIDENTS_H_
