#include "controller/driver/job/job_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/parser/job_parser.h"
#include "common/config/parser/stored_job.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "controller/checkpoint/staging.h"
#include "controller/failure/errors.h"
#include "controller/incidents/incident_files.h"
#include "controller/scheduler/placement.h"

namespace coxswain::driver {
namespace {

constexpr std::chrono::minutes kKeepMetrics{5};  // after the end of a job

// What stands for auto in the text of a stored job.
config::ChosenResources ChosenOf(const v1::Job& job) {
  config::ChosenResources chosen;
  if (job.workers() > 0) chosen.workers = job.workers();
  // A release that stored no device ran what did not name one on the CPU.
  if (job.device().empty() || job.device() == "cpu") chosen.device = config::Device::kCpu;
  if (job.device() == "cuda") chosen.device = config::Device::kCuda;
  return chosen;
}

}  // namespace

JobTable::JobTable(const Deps& deps)
    : deps_(deps), deleted_history_(deps.loop, deps.journal->store()) {
  deps_.registry->SetListener(
      {.on_free = [this] { Reschedule(); },
       .on_lost =
           [this](const scheduler::Worker& worker, const std::string& reason) {
             const auto it = jobs_.find(worker.job);
             if (it != jobs_.end()) it->second->WorkerLost(worker.target.incarnation, reason);
           },
       .on_draining =
           [this](const scheduler::Worker& worker) {
             const auto it = jobs_.find(worker.job);
             if (it != jobs_.end()) it->second->WorkerDraining(worker.target.id);
           },
       .on_registered = [this](const scheduler::Worker& worker) { return AwaitedRank(worker); },
       .next_term = [this](uint64_t seen) { return deps_.journal->store()->NextTerm(seen); }});
  Observe();
}

int JobTable::AwaitedRank(const scheduler::Worker& worker) {
  for (const auto& [id, job] : jobs_) {
    if (const int rank = job->Registered(worker); rank >= 0) return rank;
  }
  return -1;
}

JobHooks JobTable::Hooks(const std::string& owner) {
  return {
      .reschedule = [this] { Reschedule(); },
      .resolve_checkpoints =
          [this, owner](const std::string& resume) { return ResolveCheckpoints(resume, owner); },
      .host_failed = [this](const std::string& job,
                            const v1::Error& error) { return HostFailed(job, error); }};
}

absl::Status JobTable::Recover() {
  ASSIGN_OR_RETURN(const uint64_t term, deps_.journal->store()->NextTerm(/*seen=*/0));
  deps_.registry->Lead(deps_.journal->store()->Id(), term);
  RestoreLinks();
  RETURN_IF_ERROR(RestoreCordons());
  ASSIGN_OR_RETURN(std::vector<store::JobRow> rows, deps_.journal->store()->Jobs());
  log::Info("recovering", {{"term", term}, {"jobs", static_cast<int64_t>(rows.size())}});
  int64_t unreadable = 0;
  for (store::JobRow& row : rows) {
    last_order_ = std::max(last_order_, row.order);
    if (row.unreadable.empty()) {
      RecoverJob(std::move(row));
    } else {
      SetAside(std::move(row));
      ++unreadable;
    }
  }
  deps_.metrics->UnreadableJobs(unreadable);
  recovered_ = true;
  SweepLeftovers();
  deleted_history_.Sweep();
  Reschedule();
  return absl::OkStatus();
}

// They make plans better; without them gangs form all the same.
void JobTable::RestoreLinks() {
  const absl::StatusOr<std::vector<store::LinkRow>> links = deps_.journal->store()->Links();
  if (!links.ok()) {
    log::Error("the measured links cannot be read: plans begin without them",
               {{"error", std::string(links.status().message())}});
    return;
  }
  for (const store::LinkRow& row : *links) {
    deps_.registry->links().Restore(row.gang,
                                    {.bytes = row.bytes, .bytes_per_second = row.bytes_per_second});
  }
}

void JobTable::RecoverJob(store::JobRow row) {
  config::ParsedJob parsed = config::ReadStoredJob(row.job.effective_json(), row.job.yaml(),
                                                   row.base_dir, ChosenOf(row.job));
  const std::string id = row.job.id();
  JobHooks hooks = Hooks(row.job.owner());
  auto driver =
      std::make_unique<JobDriver>(deps_, std::move(row), std::move(parsed.spec), std::move(hooks));
  JobDriver* job = jobs_.emplace(id, std::move(driver)).first->second.get();
  if (parsed.errors.empty()) {
    job->TakeUp(/*after_restart=*/true);
  } else {
    job->Refuse(absl::InvalidArgumentError(config::FormatErrors(parsed.errors, "job.yaml")));
  }
}

// Users see a FAILED job that says what happened. Nothing of it is written: Journal::PutJob.
void JobTable::SetAside(store::JobRow row) {
  const std::string id = row.job.id();
  const absl::Status what = absl::DataLossError(absl::StrCat(
      row.unreadable, ". The row stays as it is for inspection, and so do the job's files; cox ",
      "delete ", id, " removes it"));
  log::Error("a job of the store was set aside",
             {{"job", id}, {"error", std::string(what.message())}});
  row.job.set_name(id);
  row.job.set_state(v1::JOB_STATE_FAILED);
  *row.job.mutable_error() = failure::MakeError(what, {.phase = "recover"});
  JobHooks hooks = Hooks(row.job.owner());
  jobs_.emplace(
      id, std::make_unique<JobDriver>(deps_, std::move(row), config::JobSpec(), std::move(hooks)));
}

// What jobs that ended, or are paused, left in .staging when the controller died. Others sweep
// their own with the next attempt; a directory that has another owner stays as it is.
void JobTable::SweepLeftovers() {
  std::map<std::string, OutputOwner> leftovers;  // by output directory
  for (const auto& [id, job] : jobs_) {
    const bool idle = state::IsTerminal(job->phase()) || job->phase() == v1::JOB_STATE_PAUSED;
    if (!idle || job->job().epoch() == 0) continue;
    leftovers.emplace(job->spec().output_dir,
                      OwnerHere(deps_.journal->store()->Id(), deps_.registry->term(), id));
  }
  for (const auto& [id, job] : jobs_) {
    const bool idle = state::IsTerminal(job->phase()) || job->phase() == v1::JOB_STATE_PAUSED;
    if (!idle) leftovers.erase(job->spec().output_dir);
  }
  deps_.loop->Offload(
      Lane::kFiles,
      [files = deps_.files, leftovers] {
        for (const auto& leftover : leftovers) {
          const auto& output_dir = leftover.first;  // clang 14 captures no structured bindings
          if (!files->Exists(checkpoint::StagingRoot(output_dir))) continue;
          OutputClaim claim(files, output_dir, leftover.second);
          if (!claim.Take().ok()) continue;
          claim.WhileHeld([&] { return checkpoint::LeaveStaging(files, output_dir); })
              .IgnoreError();
          claim.Release();
        }
      },
      [] {});
}

void JobTable::Add(store::JobRow row, config::JobSpec spec) {
  last_order_ = std::max(last_order_, row.order);
  const std::string id = row.job.id();
  JobHooks hooks = Hooks(row.job.owner());
  auto driver =
      std::make_unique<JobDriver>(deps_, std::move(row), std::move(spec), std::move(hooks));
  JobDriver* job = jobs_.emplace(id, std::move(driver)).first->second.get();
  deps_.metrics->JobSubmitted();
  job->TakeUp(/*after_restart=*/false);
}

JobDriver* JobTable::FindById(const std::string& id) {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second.get();
}

absl::StatusOr<JobDriver*> JobTable::Find(const std::string& reference, const std::string& owner) {
  if (reference.empty()) return absl::InvalidArgumentError("job: a name or id is needed");
  const auto hidden = [&](const JobDriver& job) {
    return !owner.empty() && job.job().owner() != owner;
  };
  if (const auto exact = jobs_.find(reference); exact != jobs_.end() && !hidden(*exact->second)) {
    return exact->second.get();
  }
  JobDriver* named = nullptr;
  std::vector<std::string> live, prefixed;
  for (const auto& [id, job] : jobs_) {
    if (hidden(*job)) continue;
    if (id.starts_with(reference)) prefixed.push_back(id);
    if (job->job().name() != reference) continue;
    if (!state::IsTerminal(job->phase())) live.push_back(id);
    if (named == nullptr || job->row().order > named->row().order) named = job.get();
  }
  if (live.size() == 1) return jobs_.at(live.front()).get();
  if (live.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", reference, "' names ", live.size(),
                     " jobs that have not ended; give the id: ", absl::StrJoin(live, ", ")));
  }
  if (named != nullptr) return named;
  if (prefixed.size() == 1) return jobs_.at(prefixed.front()).get();
  if (prefixed.empty()) {
    return absl::NotFoundError(absl::StrCat("no job with id, id prefix or name '", reference, "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", reference, "' matches ", prefixed.size(),
                                                 " jobs: ", absl::StrJoin(prefixed, ", ")));
}

std::vector<JobDriver*> JobTable::NewestFirst() {
  std::vector<JobDriver*> jobs;
  for (const auto& [id, job] : jobs_) jobs.push_back(job.get());
  std::sort(jobs.begin(), jobs.end(),
            [](JobDriver* a, JobDriver* b) { return a->row().order > b->row().order; });
  return jobs;
}

absl::Status JobTable::Delete(const std::string& id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return absl::NotFoundError(absl::StrCat("no job ", id));
  if (!state::IsTerminal(it->second->phase())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(state::PhaseName(it->second->phase())),
                     ": cancel it first"));
  }
  // What waits is written first, so that no row comes back.
  RETURN_IF_ERROR(deps_.journal->Transact([&] {
    deps_.journal->DeleteJob(id);
    return absl::OkStatus();
  }));
  deleted_history_.Sweep();
  deps_.metrics->DropJob(id);
  drop_metrics_at_ns_.erase(id);
  jobs_.erase(it);
  deps_.loop->Offload(
      Lane::kFiles,
      [files = incidents::IncidentFiles(deps_.files, deps_.incidents_dir), id] {
        files.Forget(id);
      },
      [] {});
  return absl::OkStatus();
}

void JobTable::Reschedule() {
  if (scheduled_) return;
  scheduled_ = true;
  deps_.loop->Post(lifetime_.Wrap([this] {
    scheduled_ = false;
    Schedule();
  }));
}

const JobDriver* JobTable::OutputHeldBy(const JobDriver& job) const {
  for (const auto& [id, other] : jobs_) {
    if (other.get() == &job || !other->HoldsOutput()) continue;
    const bool same_path = other->spec().output_dir == job.spec().output_dir;
    const std::string& identity = other->output_identity();
    if (same_path || (!identity.empty() && identity == job.output_identity())) return other.get();
  }
  return nullptr;
}

std::vector<scheduler::QueueEntry> JobTable::Queue() const {
  std::vector<scheduler::QueueEntry> queue;
  for (const auto& [id, job] : jobs_) {
    const bool wants = job->WantsWorkers(), keeps = job->KeepsWorkers();
    if ((!wants && !keeps) || OutputHeldBy(*job) != nullptr) continue;
    queue.push_back({.job = id,
                     .priority = job->spec().priority,
                     .order = job->row().order,
                     .device = config::DeviceName(job->spec().device),
                     .workers = job->spec().workers,
                     .keeps = keeps,
                     .ready = wants});
  }
  scheduler::SortQueue(&queue);
  return queue;
}

const JobDriver* JobTable::KeptFor(const scheduler::Worker& worker) const {
  const auto it = jobs_.find(worker.last_job);
  return it != jobs_.end() && it->second->KeepsWorkers() ? it->second.get() : nullptr;
}

void JobTable::Schedule() {
  if (!recovered_) return;
  if (stopping_) {
    LookForRest();
    return;
  }
  for (const auto& [id, job] : jobs_) job->LetOutputGo();
  for (const auto& [id, job] : jobs_) job->LookForFreed();
  for (const auto& [id, job] : jobs_) job->LookForWorkers();
  for (const auto& [id, job] : jobs_) {
    if (job->MayReadopt() && OutputHeldBy(*job) == nullptr) job->Readopt();
  }
  for (const scheduler::Placement& placement : scheduler::PlaceJobs(*deps_.registry, Queue())) {
    JobDriver* job = jobs_.at(placement.job).get();
    if (OutputHeldBy(*job) != nullptr) continue;  // one admitted just now may hold it
    const absl::Status reserved = scheduler::Reserve(deps_.registry, placement);
    if (!reserved.ok()) {
      log::Error("admission failed",
                 {{"job", placement.job}, {"error", std::string(reserved.message())}});
      continue;
    }
    job->Admit(placement.workers);
  }
  Preempt();
}

void JobTable::Stop(std::function<void()> at_rest) {
  stopping_ = true;
  at_rest_ = std::move(at_rest);
  for (const auto& [id, job] : jobs_) job->StopWithController();
  Reschedule();
}

std::vector<std::string> JobTable::NotAtRest() const {
  std::vector<std::string> jobs;
  for (const auto& [id, job] : jobs_) {
    if (!job->AtRest()) jobs.push_back(id);
  }
  return jobs;
}

// A worker that has not answered Release yet would be told to abort by the next controller.
void JobTable::LookForRest() {
  const std::vector<scheduler::Worker> workers = deps_.registry->All();
  const bool work = std::any_of(workers.begin(), workers.end(), [](const auto& worker) {
    return worker.status.phase == state::WorkerPhase::kRunning;
  });
  if (at_rest_ != nullptr && !work && NotAtRest().empty()) std::exchange(at_rest_, nullptr)();
}

// "<job>" is any of its checkpoints, the newest first, "<job>:<step>" the one of that step.
absl::StatusOr<std::vector<checkpoint::KnownCheckpoint>> JobTable::ResolveCheckpoints(
    const std::string& resume, const std::string& owner) {
  const size_t colon = resume.rfind(':');
  ASSIGN_OR_RETURN(JobDriver * source, Find(resume.substr(0, colon), owner));
  int64_t step = -1;
  if (colon != std::string::npos) {
    const char* end = resume.data() + resume.size();
    if (std::from_chars(resume.data() + colon + 1, end, step).ptr != end) {
      return absl::InvalidArgumentError(
          absl::StrCat("checkpoint.resume: '", resume, "' is not <job>:<step>"));
    }
  }
  std::map<int64_t, const v1::CheckpointInfo*, std::greater<>> found;  // by step
  for (const v1::CheckpointInfo& info : source->job().checkpoints()) {
    if (step < 0 || info.step() == step) found.emplace(info.step(), &info);
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("checkpoint.resume: job ", source->job().id(),
                                            " has no committed checkpoint",
                                            step < 0 ? "" : absl::StrCat(" of step ", step)));
  }
  std::vector<checkpoint::KnownCheckpoint> checkpoints;
  for (const auto& [at, info] : found) {
    checkpoints.push_back(
        {.directory = info->directory(), .digest = info->digest(), .job = source->job().id()});
  }
  return checkpoints;
}

// Once a second: the gauges that no event updates.
void JobTable::Observe() {
  std::map<std::string, int64_t> jobs, workers;
  for (int phase = v1::JOB_STATE_QUEUED; phase <= v1::JOB_STATE_CANCELLED; ++phase) {
    jobs[std::string(state::PhaseName(static_cast<v1::JobState>(phase)))] = 0;
  }
  const int64_t now = deps_.loop->clock().NowNs();
  for (const auto& [id, job] : jobs_) {
    ++jobs[std::string(state::PhaseName(job->phase()))];
    if (state::IsTerminal(job->phase())) {
      drop_metrics_at_ns_.try_emplace(id, now + std::chrono::nanoseconds(kKeepMetrics).count());
    }
  }
  for (auto& [id, due] : drop_metrics_at_ns_) {
    if (due != 0 && now >= due) {
      deps_.metrics->DropJob(id);
      due = 0;
    }
  }
  for (int phase = 0; phase < state::kNumWorkerPhases; ++phase) {
    workers[std::string(state::PhaseName(static_cast<state::WorkerPhase>(phase)))] = 0;
  }
  std::map<std::string, double> ages;
  int64_t cordoned = 0;
  for (const scheduler::Worker& worker : deps_.registry->All()) {
    const bool lost = worker.status.phase == state::WorkerPhase::kLost;
    if (lost && worker.status.draining) continue;  // it left as it had announced
    ++workers[std::string(state::PhaseName(worker.status.phase))];
    if (!lost) {
      cordoned += !worker.cordoned.empty();
      ages[worker.target.id] = deps_.registry->BeatAgeSeconds(worker);
    }
  }
  deps_.metrics->Jobs(jobs);
  deps_.metrics->Workers(workers);
  deps_.metrics->CordonedWorkers(cordoned);
  deps_.metrics->HeartbeatAge(ages);
  deps_.loop->After(std::chrono::seconds(1), lifetime_.Wrap([this] { Observe(); }));
}

}  // namespace coxswain::driver
