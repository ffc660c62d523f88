#include "tests/sim/schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/state/job_state.h"

namespace coxswain::sim {
namespace {

constexpr int64_t kAfterFaultsMs = 3'600'000;  // every job ends within that time

driver::Settings ShortTimes(Draw& draw) {
  driver::Settings settings;
  settings.credits = static_cast<int>(draw.Upto(3));
  settings.prepare_timeout = std::chrono::milliseconds(60'000);
  settings.connect_timeout = std::chrono::milliseconds(30'000);
  settings.save_timeout = std::chrono::milliseconds(60'000);
  settings.first_step_timeout = std::chrono::milliseconds(60'000);
  return settings;
}

void DrawShort(Draw& draw, Schedule* schedule) {
  Simulation::Options& options = schedule->options;
  options.workers = 1 + static_cast<int>(draw.Upto(3));
  options.network.step_ms = 300 + draw.Upto(500);
  options.shape.proof_records = 2;
  schedule->horizon_ms = 20'000;
  schedule->jobs.push_back({.shape = {.name = "first",
                                      .workers = options.workers,
                                      .steps = 11 + draw.Upto(5),
                                      .save_steps = 2 + draw.Upto(3)}});
  schedule->jobs.push_back({.shape = {.name = "second",
                                      .workers = 1,
                                      .steps = 12,
                                      .save_steps = 5,
                                      .priority = draw.Below(2)},
                            .at_ms = draw.Upto(5000),
                            .lost_answers = draw.Below(2)});
  if (draw.Below(2) == 0) return;
  schedule->jobs.push_back({.shape = {.name = "third", .workers = 1, .steps = 12},
                            .at_ms = draw.Upto(9000),
                            .may_be_cancelled = true});
}

void AddOneThatGenerates(Draw& draw, Schedule* schedule) {
  schedule->jobs.push_back({.shape = {.name = "answers",
                                      .workers = static_cast<int>(draw.Upto(2)),
                                      .steps = 0,
                                      .answer_tokens = 20 + draw.Upto(60)},
                            .at_ms = draw.Upto(9000)});
}

void DrawLong(Draw& draw, Schedule* schedule) {
  Simulation::Options& options = schedule->options;
  options.workers = 4 + draw.Below(5);
  options.network.step_ms = 80;
  options.shape.bins_per_step = 8;
  options.shape.proof_records = 2;
  schedule->horizon_ms = 25'000;
  schedule->jobs.push_back({.shape = {.name = "long",
                                      .workers = std::max(4, options.workers - 1),
                                      .steps = 199 + draw.Upto(41),
                                      .eval_steps = 50,
                                      .save_steps = 30 + draw.Upto(30)}});
  schedule->jobs.push_back({.shape = {.name = "second", .workers = 1, .steps = 12},
                            .at_ms = draw.Upto(9000),
                            .lost_answers = draw.Below(2)});
}

bool AllEnded(Simulation& sim, const Schedule& schedule) {
  return std::all_of(schedule.jobs.begin(), schedule.jobs.end(), [&](const Schedule::Job& job) {
    const std::string& name = job.shape.name;
    return sim.users().accepted(name) && state::IsTerminal(sim.Job(sim.users().id(name)).state());
  });
}

// A gang ends in good order or not at all, whichever controller it is told by.
void CheckOnlyControllerFailed(Simulation& sim, const v1::Job& job) {
  if (const int64_t again = sim.rules().steps_trained_again(job.id()); again > 0) {
    sim.rules().Report("sim-11", absl::StrCat(job.name(), " trained ", again,
                                              " steps again, and only the controller had failed"));
  }
  size_t drained = 0;
  for (const v1::JobEvent& event : sim.Events(job.id(), "StateChanged")) {
    const v1::StateChanged& change = event.state_changed();
    // The latter: of one that had drained when its controller stopped.
    drained += change.event() == "Drained" ||
               (change.from() == "DRAINING" && change.event() == "ControllerRestarted");
  }
  const size_t formed = sim.Events(job.id(), "GangFormed").size();
  if (formed > 1 + drained) {
    sim.rules().Report("sim-11", absl::StrCat(job.name(), " formed ", formed, " gangs and drained ",
                                              drained, ", and only the controller had failed"));
  }
}

// What became of a job that nobody cancelled.
void CheckEnd(Simulation& sim, const Schedule& schedule, const Schedule::Job& planned) {
  const std::string& name = planned.shape.name;
  if (!sim.users().accepted(name)) {
    sim.rules().Report("sim-9", "job " + name + " was never accepted");
    return;
  }
  const v1::Job& job = sim.Job(sim.users().id(name));
  const std::string state(state::PhaseName(job.state()));
  // Where no gang has ever trained, storage that fails is the user's to look at, and told at once.
  const bool told = job.state() == v1::JOB_STATE_FAILED && job.started_unix_ms() == 0 &&
                    job.error().kind() == v1::ERROR_KIND_USER;
  const bool cancelled =
      told || (planned.may_be_cancelled && job.state() == v1::JOB_STATE_CANCELLED);
  if (!cancelled && job.state() != v1::JOB_STATE_SUCCEEDED) {
    sim.rules().Report(
        "sim-5", absl::StrCat(name, " is ", state, " after all faults: ", job.error().message()));
  } else if (!cancelled && job.progress().step() != planned.shape.steps) {
    sim.rules().Report("sim-3", absl::StrCat(name, " ended after ", job.progress().step(),
                                             " steps of ", planned.shape.steps));
  }
  if (schedule.kind == ScheduleKind::kGentle && job.epoch() != 1) {
    sim.rules().Report("sim-10", absl::StrCat(name, " formed ", job.epoch(), " gangs"));
  }
  if (schedule.kind == ScheduleKind::kController && !sim.rules().was_let_go(job.id())) {
    CheckOnlyControllerFailed(sim, job);
  }
}

}  // namespace

Schedule DrawSchedule(uint64_t seed) {
  Draw draw(seed);
  Schedule schedule;
  schedule.seed = seed;
  if (seed % 10 == 0) schedule.kind = ScheduleKind::kLong;
  if (seed % 20 == 7) schedule.kind = ScheduleKind::kGentle;
  if (seed % 20 == 13) schedule.kind = ScheduleKind::kController;
  FaultsOf of = FaultsOf::kAll;
  if (schedule.kind == ScheduleKind::kGentle) of = FaultsOf::kHarmless;
  if (schedule.kind == ScheduleKind::kController) of = FaultsOf::kController;
  schedule.options.seed = seed;
  schedule.options.settings = ShortTimes(draw);
  schedule.options.network.duplicate_events = draw.Below(2) == 0 ? 0.1 : 0.0;
  schedule.options.network.max_delay_ms = draw.Upto(20);
  schedule.options.lane_most_ms = draw.Upto(200);
  schedule.kind == ScheduleKind::kLong ? DrawLong(draw, &schedule) : DrawShort(draw, &schedule);
  if (of == FaultsOf::kController) AddOneThatGenerates(draw, &schedule);
  if (of == FaultsOf::kHarmless) {  // a priority would end gangs too
    for (Schedule::Job& job : schedule.jobs) job.shape.priority = 0;
  }
  const auto faults = static_cast<int>(4 + draw.Upto(6));
  schedule.faults = PlanFaults(seed, schedule.horizon_ms, faults, of);
  return schedule;
}

Played Play(Schedule schedule, const std::set<size_t>& kept, Coverage* coverage) {
  schedule.options.coverage = coverage;
  Simulation sim(schedule.options);
  for (const Schedule::Job& job : schedule.jobs) {
    sim.At(job.at_ms, [&sim, &job] { sim.Ask(job.shape, job.may_be_cancelled, job.lost_answers); });
  }
  std::vector<PlannedFault> faults;
  for (size_t i = 0; i < schedule.faults.size(); ++i) {
    if (kept.empty() || kept.contains(i)) faults.push_back(schedule.faults[i]);
  }
  LetHappen(faults, &sim);
  // What was begun by then still takes its time.
  sim.At(schedule.horizon_ms + 15'000, [&sim] { sim.Mend(); });
  const auto stops = [&] { return !sim.violations().empty(); };
  const bool ended = sim.RunUntil(
      [&] {
        return stops() || (sim.clock().NowNs() / 1'000'000 > schedule.horizon_ms + 16'000 &&
                           AllEnded(sim, schedule));
      },
      schedule.horizon_ms + kAfterFaultsMs);
  Played played;
  if (!stops()) {
    if (!ended) sim.rules().Report("sim-5", "not all jobs ended");
    if (sim.up()) {
      for (const Schedule::Job& job : schedule.jobs) CheckEnd(sim, schedule, job);
      for (const Schedule::Job& job : schedule.jobs) {
        if (!sim.users().accepted(job.shape.name)) continue;
        played.gangs += sim.Job(sim.users().id(job.shape.name)).epoch();
      }
      sim.deps().journal->Flush().IgnoreError();
    }
    sim.Violations();
  }
  played.violations = sim.violations();
  played.transcript = sim.history();
  played.checkpoints = sim.rules().committed_checkpoints();
  return played;
}

}  // namespace coxswain::sim
