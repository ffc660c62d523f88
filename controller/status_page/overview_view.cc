#include <algorithm>

#include "common/format.h"
#include "controller/state/job_state.h"
#include "controller/status_page/views.h"

namespace coxswain::status_page {
namespace {

using nlohmann::json;

constexpr size_t kCurvePoints = 120;
constexpr size_t kMaxEvents = 15;

void AddCounts(const std::map<std::string, int64_t>& by_state, const char* key, const char* none,
               json* fields) {
  for (const auto& [name, count] : by_state) {
    (*fields)[key].push_back({{"STATE", name}, {"COUNT", FormatCount(count)}});
  }
  if (by_state.empty()) (*fields)[none] = true;
}

void AddLeftOut(int64_t count, const char* key, json* fields) {
  if (count > 0) (*fields)[key] = Count(count);
}

void AddJobs(const Overview& page, const std::map<std::string, const History*>& histories,
             json* fields) {
  double rate = 0;
  bool running = false;
  for (const JobRow& row : page.jobs) {
    json summary = JobSummaryFields(row, page.unix_ms);
    (*fields)["JOBS"].push_back(summary);
    if (row.job.state() == v1::JOB_STATE_RUNNING) {
      running = true;
      rate += row.job.progress().tokens_per_second();
    }
    const auto history = histories.find(row.job.id());
    const bool at_work = !row.gang.phase.empty() || row.job.progress().step() > 0;
    if (state::IsTerminal(row.job.state()) || !at_work || history == histories.end()) continue;
    summary[">curve"] = {LossCurveFields(row.job.id(), *history->second, kCurvePoints),
                         RateCurveFields(row.job.id(), *history->second, kCurvePoints)};
    (*fields)["LIVE"].push_back(std::move(summary));
  }
  if (page.jobs.empty()) (*fields)["NO_JOBS"] = true;
  if (running) (*fields)["RATE"] = Whole(rate);
  AddLeftOut(page.jobs_left_out, "JOBS_LEFT_OUT", fields);
}

void AddQueue(const Overview& page, json* fields) {
  if (page.queue.empty()) {
    (*fields)["QUEUE_EMPTY"] = true;
    return;
  }
  json& table = (*fields)["QUEUE_TABLE"];
  for (size_t i = 0; i < page.queue.size(); ++i) {
    const QueueRow& row = page.queue[i];
    table["QUEUE"].push_back({{"ID", row.job},
                              {"PLACE", std::to_string(i + 1)},
                              {"PRIORITY", std::to_string(row.priority)},
                              {"NEEDS", FormatCount(row.workers)},
                              {"DEVICE", row.device}});
  }
  AddLeftOut(page.queue_left_out, "QUEUE_LEFT_OUT", &table);
}

void AddEvents(const Overview& page, const std::map<std::string, const History*>& histories,
               json* fields) {
  std::vector<const v1::JobEvent*> events;
  for (const auto& [job, history] : histories) {
    for (const v1::JobEvent& event : history->newest_events()) events.push_back(&event);
  }
  std::sort(events.begin(), events.end(), [](auto* a, auto* b) { return a->id() > b->id(); });
  if (events.size() > kMaxEvents) events.resize(kMaxEvents);
  for (const v1::JobEvent* event : events) {
    (*fields)["EVENTS"].push_back(EventFields(*event, page.unix_ms));
  }
  if (events.empty()) (*fields)["NO_EVENTS"] = true;
}

}  // namespace

json OverviewFields(const Overview& page, const std::map<std::string, const History*>& histories) {
  json fields = {{"VERSION", page.build.version()},
                 {"COMMIT", page.build.commit()},
                 {"TERM", std::to_string(page.term)},
                 {"NOW", Moment(page.unix_ms, page.unix_ms)},
                 {">head", {{"TITLE", "Coxswain"}}}};
  AddCounts(page.jobs_by_state, "JOB_COUNTS", "NO_JOBS", &fields);
  AddCounts(page.workers_by_state, "WORKER_COUNTS", "NO_WORKERS", &fields);
  AddJobs(page, histories, &fields);
  AddQueue(page, &fields);
  for (const v1::WorkerInfo& worker : page.workers) {
    fields["WORKER_ROWS"].push_back(WorkerFields(worker));
  }
  AddLeftOut(page.workers_left_out, "WORKERS_LEFT_OUT", &fields);
  AddEvents(page, histories, &fields);
  return fields;
}

}  // namespace coxswain::status_page
