// What the simulation looks at and writes down: simulation.h.
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/state/gang_state.h"
#include "controller/state/worker_state.h"
#include "tests/sim/controller.h"
#include "tests/sim/simulation.h"

namespace coxswain::sim {
namespace {

// Without what is drawn of an id at run time: transcripts are the same in every run.
std::string NameOf(const std::string& job) { return job.substr(0, job.rfind('-')); }

}  // namespace

void Simulation::Count(const std::string& row) {
  if (options_.coverage != nullptr) options_.coverage->Count(row);
}

void Simulation::Note(const std::string& what) {
  absl::StrAppend(&history_, clock_.NowNs() / 1'000'000, " ms: ", what, "\n");
}

void Simulation::Observe() {
  workers_.set_on_trained([this](const v1::Fence& fence, int rank, const FakeModel& model) {
    rules_.OnTrained(fence, rank, model);
  });
  faulty_store_.OnSlow([this](int64_t ms) { StallLoop(ms); });
  faulty_store_.OnCommits([this](const store::Batch& batch) { rules_.BeforeCommit(batch); },
                          [this](const store::Batch& batch) {
                            rules_.AfterCommit(batch);
                            NoteCommit(batch);
                          });
  faulty_store_.OnFault([this](const std::string& what) {
    Note(what);
    Count("store fault met");
  });
  faulty_files_.OnChanged([this](const std::string& path) { rules_.OnChanged(path); });
  faulty_files_.OnFault([this](const std::string& what) {
    Note(what);
    Count("file fault met");
  });
  if (options_.coverage != nullptr) {
    transport_.OnCall([this](Call call) { Count(CallRow(call)); });
  }
  transport_.OnFault([this](Call call, MessageFault fault, const std::string& worker) {
    Note(absl::StrCat(CallName(call), " to ", worker, ": ", MessageFaultName(fault)));
    Count(MessageRow(call, fault));
  });
  transport_.OnOvertaken([this] { Count("message overtaken"); });
}

void Simulation::AfterTask() {
  if (crash_.dead()) return;
  rules_.AfterTask(*controller_->jobs, controller_->registry, controller_->loop.AttentiveNs());
  if (options_.coverage != nullptr) Watch(*controller_);
}

// Transitions of workers and gangs; those of jobs are events.
void Simulation::Watch(Controller& controller) {
  for (int slot = 0; slot < workers_.slots(); ++slot) {
    controller.worker_states.try_emplace(workers_.incarnation(slot));
  }
  for (auto& [incarnation, before] : controller.worker_states) {
    const scheduler::Worker* worker = controller.registry.Find(incarnation);
    if (worker == nullptr || worker->status.phase == before.phase) continue;
    Count(absl::StrCat("worker ", std::string(state::PhaseName(before.phase)), " -> ",
                       std::string(state::PhaseName(worker->status.phase))));
    before = worker->status;
  }
  for (driver::JobDriver* job : controller.jobs->NewestFirst()) {
    const gang::Gang* gang = job->gang();
    if (gang == nullptr || gang->epoch == 0) continue;
    auto& [epoch, phase] = controller.gangs[job->job().id()];
    if (epoch == gang->epoch && phase != gang->status.phase) {
      Count(absl::StrCat("gang ", std::string(state::PhaseName(phase)), " -> ",
                         std::string(state::PhaseName(gang->status.phase))));
    }
    epoch = gang->epoch;
    phase = gang->status.phase;
  }
}

void Simulation::NoteCommit(const store::Batch& batch) {
  for (const v1::JobEvent& event : batch.events) {
    if (event.has_preempted()) {
      Note(absl::StrCat(NameOf(event.job()), ": preempted by ", NameOf(event.preempted().by())));
      Count("job preempted by another");
    }
    if (!event.has_state_changed()) continue;
    const v1::StateChanged& change = event.state_changed();
    Note(absl::StrCat(NameOf(event.job()), ": ", change.from(), " -> ", change.to(), " (",
                      change.event(), ", epoch ", change.epoch(), ")"));
    Count(absl::StrCat("job ", change.from(), " -> ", change.to(), " by ", change.event()));
  }
  for (const store::CheckpointRow& row : batch.checkpoints) {
    Note(absl::StrCat(NameOf(row.job), ": checkpoint of step ", row.step,
                      row.deleted ? " is deleted" : " is committed"));
  }
}

}  // namespace coxswain::sim
