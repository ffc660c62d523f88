// What the page shows of the controller at one moment, copied on the loop.
#ifndef COXSWAIN_CONTROLLER_STATUS_PAGE_SNAPSHOT_H_
#define COXSWAIN_CONTROLLER_STATUS_PAGE_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/api/context.h"
#include "controller/gang/gang.h"
#include "coxswain/v1/job.pb.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::status_page {

// Rows beyond these are counted, not listed: a page stays below 100 KB. Invariant page-2.
inline constexpr size_t kMaxJobs = 20;
inline constexpr size_t kMaxEndedJobs = 8;  // of them, when there are others
inline constexpr size_t kMaxWorkers = 32;
inline constexpr size_t kMaxQueue = 15;

struct QueueRow {
  std::string job;
  int64_t priority = 0;
  int64_t workers = 0;
  std::string device;  // "cpu" | "cuda"
};

// The state of the gang of a job; empty phase: it has none now.
struct GangRow {
  std::string phase;  // as state::GangPhase
  int64_t world_size = 0;
  int64_t arrived = 0;  // ranks that reached the end of the phase
};

struct JobRow {
  v1::Job job;  // without yaml and effective_json
  GangRow gang;
};

struct Overview {
  int64_t unix_ms = 0;
  uint64_t term = 0;
  v1::BuildInfo build;
  std::map<std::string, int64_t> jobs_by_state, workers_by_state;  // all of them
  std::vector<JobRow> jobs;             // those that have not ended, newest first, then the others
  std::vector<v1::WorkerInfo> workers;  // by id
  std::vector<QueueRow> queue;          // in the order in which they get workers
  int64_t jobs_left_out = 0, workers_left_out = 0, queue_left_out = 0;
};

struct JobDetail {
  int64_t unix_ms = 0;
  JobRow row;
  std::string why;                      // as cox explain says
  std::vector<gang::Rank> ranks;        // of the current gang
  std::vector<v1::WorkerInfo> workers;  // of the job, by rank
};

// Loop thread only. No I/O; the work is one pass over all jobs and workers.
Overview TakeOverview(api::Context& context);
// By id, unique id prefix or name; errors as JobTable::Find.
absl::StatusOr<JobDetail> TakeJob(api::Context& context, const std::string& reference);

}  // namespace coxswain::status_page

#endif  // COXSWAIN_CONTROLLER_STATUS_PAGE_SNAPSHOT_H_
