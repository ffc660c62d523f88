#include "controller/status_page/snapshot.h"

#include <algorithm>

#include "controller/api/job_replies.h"
#include "controller/api/operations.h"

namespace coxswain::status_page {
namespace {

JobRow RowOf(const driver::JobDriver& driver) {
  JobRow row;
  row.job = api::ListedJob(driver.job());
  if (const gang::Gang* gang = driver.gang()) {
    row.gang = {.phase = std::string(state::PhaseName(gang->status.phase)),
                .world_size = gang->status.world_size,
                .arrived = gang->status.arrived};
  }
  return row;
}

// Who reads the page reads of all jobs (common/access/page_guard.h).
std::vector<v1::WorkerInfo> Workers(api::Context& context) {
  std::vector<v1::WorkerInfo> workers;
  api::ListWorkers(context, v1::ListWorkersRequest(), {.role = access::Role::kOperator},
                   [&](absl::StatusOr<v1::ListWorkersResponse> response) {
                     if (!response.ok()) return;
                     workers.assign(response->workers().begin(), response->workers().end());
                   });
  return workers;
}

// For a list: without the texts of its answers.
JobRow ListedRow(const driver::JobDriver& driver) {
  JobRow row = RowOf(driver);
  row.job.clear_samples();
  return row;
}

template <typename Row>
int64_t CutTo(size_t limit, std::vector<Row>* rows) {
  const int64_t left_out = std::max<int64_t>(0, static_cast<int64_t>(rows->size() - limit));
  if (rows->size() <= limit) return 0;
  rows->resize(limit);
  return left_out;
}

void AddJobs(api::Context& context, Overview* page) {
  const std::vector<driver::JobDriver*> newest = context.jobs->NewestFirst();
  std::vector<driver::JobDriver*> live, ended;
  for (driver::JobDriver* job : newest) {
    ++page->jobs_by_state[std::string(state::PhaseName(job->phase()))];
    (state::IsTerminal(job->phase()) ? ended : live).push_back(job);
  }
  const size_t shown_ended =
      std::min(ended.size(), kMaxJobs - std::min(live.size(), kMaxJobs - kMaxEndedJobs));
  const size_t shown_live = std::min(live.size(), kMaxJobs - shown_ended);
  page->jobs_left_out = static_cast<int64_t>(newest.size() - shown_live - shown_ended);
  for (size_t i = 0; i < shown_live; ++i) page->jobs.push_back(ListedRow(*live[i]));
  for (size_t i = 0; i < shown_ended; ++i) page->jobs.push_back(ListedRow(*ended[i]));
}

}  // namespace

Overview TakeOverview(api::Context& context) {
  Overview page;
  page.unix_ms = context.deps.loop->clock().UnixMs();
  page.term = context.deps.registry->term();
  page.build = context.build;
  AddJobs(context, &page);
  for (const scheduler::QueueEntry& entry : context.jobs->Queue()) {
    page.queue.push_back({.job = entry.job,
                          .priority = entry.priority,
                          .workers = entry.workers,
                          .device = entry.device});
  }
  page.queue_left_out = CutTo(kMaxQueue, &page.queue);
  page.workers = Workers(context);
  for (const v1::WorkerInfo& worker : page.workers) ++page.workers_by_state[worker.state()];
  std::sort(page.workers.begin(), page.workers.end(),
            [](const auto& a, const auto& b) { return a.id() < b.id(); });
  page.workers_left_out = CutTo(kMaxWorkers, &page.workers);
  return page;
}

absl::StatusOr<JobDetail> TakeJob(api::Context& context, const std::string& reference) {
  absl::StatusOr<driver::JobDriver*> found = context.jobs->Find(reference);
  if (!found.ok()) return found.status();
  JobDetail page;
  page.unix_ms = context.deps.loop->clock().UnixMs();
  page.row = RowOf(**found);
  if (const gang::Gang* gang = (*found)->gang()) page.ranks = gang->ranks;
  const std::string& id = page.row.job.id();
  for (v1::WorkerInfo& worker : Workers(context)) {
    if (worker.job() == id) page.workers.push_back(std::move(worker));
  }
  std::sort(page.workers.begin(), page.workers.end(),
            [](const auto& a, const auto& b) { return a.rank() < b.rank(); });
  page.why = api::ExplainState(context, **found);
  return page;
}

}  // namespace coxswain::status_page
