#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/net/event_json.h"
#include "common/status_macros.h"
#include "controller/api/operations.h"
#include "controller/incidents/incident_files.h"

namespace coxswain::api {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kAskTimeout{5000};
constexpr int64_t kNewestEvents = 256;

json JobJson(Context& context, const driver::JobDriver& job) {
  const v1::Job& info = job.job();
  json out = {{"id", info.id()},
              {"state", std::string(state::PhaseName(info.state()))},
              {"epoch", info.epoch()},
              {"term", context.deps.registry->term()},
              {"restarts", info.restarts()},
              {"step", info.progress().step()},
              {"total_steps", info.progress().total_steps()},
              {"recipe_hash", ToHex(info.recipe_hash())},
              {"plan_hash", ToHex(info.plan_hash())},
              {"credits", context.deps.settings.credits}};
  json epochs = json::array();
  if (auto rows = context.deps.journal->store()->Epochs(info.id()); rows.ok()) {
    for (const store::EpochRow& row : *rows) {
      epochs.push_back({{"epoch", row.epoch},
                        {"term", row.term},
                        {"plan_hash", ToHex(row.plan_hash)},
                        {"fingerprint", row.fingerprint},
                        {"world_size", row.world_size},
                        {"start_step", row.start_step}});
    }
  }
  out["epochs"] = std::move(epochs);
  return out;
}

json EventsJson(store::History* history, const std::string& job) {
  json events = json::array();
  const absl::StatusOr<std::vector<v1::JobEvent>> newest =
      history->NewestEvents(job, kNewestEvents);
  if (!newest.ok()) return events;
  for (const v1::JobEvent& event : *newest) {
    events.push_back({{"id", event.id()},
                      {"time_unix_ms", event.time_unix_ms()},
                      {"type", event.type()},
                      {"message", event.message()},
                      {"data", EventData(event)}});
  }
  return events;
}

// What the document tells of the ranks, beside what is known of their job.
void AddReport(const driver::IncidentReport& report, json* job) {
  for (const char* key : {"ranks", "groups", "finding", "explanation", "time_unix_ms"}) {
    (*job)[key] = report.document.at(key);
  }
  (*job)["file"] = report.path;
}

// Parses and prints what the ranks and the store hold, in a lane: it may be large. `report` is null
// where the job has no gang.
void Deliver(Context& context, json job, std::shared_ptr<const driver::IncidentReport> report,
             const Reply<v1::DumpResponse>& reply) {
  auto response = std::make_shared<v1::DumpResponse>();
  context.deps.loop->Offload(
      Lane::kRequests,
      [job = std::move(job), report = std::move(report), response,
       history = context.deps.journal->store()->history(),
       files = incidents::IncidentFiles(context.deps.files, context.deps.incidents_dir)]() mutable {
        const std::string id = job.at("id");
        job["events"] = EventsJson(history, id);
        job["ranks"] = json::array();
        if (report != nullptr) AddReport(*report, &job);
        if (const auto kept = files.Newest(id, incidents::Reason::kFailure); kept.ok()) {
          json failure = json::parse(kept->document, nullptr, false);
          if (failure.is_object()) job["last_failure"] = std::move(failure);
        }
        response->set_json(job.dump(2, ' ', false, json::error_handler_t::replace));
      },
      [response, reply] { reply(std::move(*response)); });
}

// After the dump: that gang, if it is there still.
absl::Status Stop(Context& context, const std::string& id, uint64_t epoch) {
  ASSIGN_OR_RETURN(driver::JobDriver* const job, context.jobs->Find(id));
  return job->StopGang(epoch);
}

}  // namespace

void Dump(Context& context, const v1::DumpRequest& request, Reply<v1::DumpResponse> reply) {
  absl::StatusOr<driver::JobDriver*> job = context.jobs->Find(request.job());
  if (!job.ok()) {
    reply(job.status());
    return;
  }
  const gang::Gang* gang = (*job)->gang();
  const std::string id = (*job)->job().id();
  if (gang == nullptr && request.stop()) {
    reply(absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(state::PhaseName((*job)->phase())),
                     " and has no gang that could be stopped; cox dump without --stop tells what "
                     "is known of it")));
    return;
  }
  if (gang == nullptr) {
    Deliver(context, JobJson(context, **job), nullptr, reply);
    return;
  }
  (*job)->Dump(kAskTimeout, [&context, id, epoch = gang->epoch, stop = request.stop(), reply,
                             state = JobJson(context, **job)](
                                std::shared_ptr<const driver::IncidentReport> report) {
    const absl::Status stopped = stop ? Stop(context, id, epoch) : absl::OkStatus();
    if (!stopped.ok()) {
      reply(stopped);
      return;
    }
    Deliver(context, state, std::move(report), reply);
  });
}

}  // namespace coxswain::api
