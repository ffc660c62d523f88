#include "controller/driver/job/job_incidents.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/driver/records/make_events.h"
#include "controller/incidents/incident.h"
#include "controller/incidents/incident_files.h"

namespace coxswain::driver {
namespace {

// What the lane makes of a dump.
struct Kept {
  std::shared_ptr<IncidentReport> report = std::make_shared<IncidentReport>();
  absl::Status status;
};

Kept Keep(const incidents::IncidentFiles& files, const incidents::Incident& incident) {
  Kept kept;
  nlohmann::json& document = kept.report->document = incidents::IncidentJson(incident);
  auto path = files.Keep(
      incident, document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  kept.status = path.status();
  if (path.ok()) kept.report->path = *std::move(path);
  return kept;
}

}  // namespace

// What is left of it runs also when the job, or its attempt, is gone by then: but for its history.
void JobIncidents::Take(const gang::GangSession& session, Request request) {
  auto incident = std::make_shared<incidents::Incident>();
  incident->job = job_.record.id();
  incident->epoch = session.gang().epoch;
  incident->unix_ms = job_.deps.loop->clock().UnixMs();
  incident->reason = request.reason;
  incident->error = std::move(request.error);
  auto tell = lifetime_.Wrap(
      [this, incident](const Kept& kept) { Tell(*incident, *kept.report, kept.status); });
  auto deliver = [tell, kept = std::move(request.kept)](const Kept& result) mutable {
    tell(result);
    if (kept) kept(result.report);
  };
  gang::DumpRanks(
      job_.deps.transport, session, request.ranks, request.timeout,
      [loop = job_.deps.loop,
       files = incidents::IncidentFiles(job_.deps.files, job_.deps.incidents_dir), incident,
       deliver, taken = std::move(request.taken)](std::vector<gang::RankDump> ranks) {
        incident->ranks = std::move(ranks);
        auto result = std::make_shared<Kept>();
        loop->Offload(
            Lane::kRequests, [files, incident, result] { *result = Keep(files, *incident); },
            [deliver = deliver, result]() mutable { deliver(*result); });
        if (taken) taken();
      });
}

void JobIncidents::Tell(const incidents::Incident& incident, const IncidentReport& report,
                        const absl::Status& kept) {
  if (!kept.ok()) {
    job_.record.AddEvent(WarningEvent(),
                         absl::StrCat("the dump of gang ", incident.epoch,
                                      " cannot be kept: ", std::string(kept.message())));
    return;
  }
  if (report.path.empty()) return;
  const nlohmann::json& finding = report.document.at("finding");
  job_.record.AddEvent(
      IncidentKeptEvent(incident, report.path, finding.at("ranks").get<std::vector<int>>()),
      absl::StrCat("what the ranks of gang ", incident.epoch, " were doing is in ", report.path,
                   ": ", finding.at("why").get<std::string>()));
}

}  // namespace coxswain::driver
