// What every command of the engine does around its sweeps: launch one through the graphs, account
// for waits, finish.
#ifndef COXSWAIN_WORKER_ENGINE_RUN_SWEEP_H_
#define COXSWAIN_WORKER_ENGINE_RUN_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/commands.h"
#include "worker/engine/state.h"
#include "worker/engine/sweep.h"

namespace coxswain::engine {

// A range of a profiler's timeline.
class Range {
 public:
  explicit Range(const char* name) { kernels::PushRange(name); }
  ~Range() { kernels::PopRange(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// A sweep and what the graphs know it by.
struct SweepKind {
  const char* name;
  bool last_micro_step = false;  // what ranks reduce then
  bool differs_first = false;    // Sweep::first changes what it launches
  PhaseSeconds* seconds = nullptr;
  double* phase = nullptr;  // of `seconds`
};

// Launches `body`, a function of its arguments alone, or replays the graph that was captured of it.
// `visits`: the units that it enters, in order.
void RunSweep(State& state, const Sweep& sweep, const SweepKind& kind, std::vector<int32_t> visits,
              void (*body)(const State&, const Sweep&));

// The time of a wait belongs to comm and not to the phase it lies in.
void CountWait(const Stopwatch& exposed, double* phase, PhaseSeconds* seconds);

// Waits for what State::timeline marks, fills `seconds` and accounts for the waits. The error is
// the group's.
absl::Status FinishPhases(State& state, PhaseSeconds* seconds);

// FailedPrecondition where the plan trains nothing: it has no memory for losses and what follows.
absl::Status CheckTrains(const State& state, const std::string& doing);

// FailedPrecondition where the plan has several ranks and they have not met.
absl::Status CheckGroup(const State& state, const std::string& doing);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_RUN_SWEEP_H_
