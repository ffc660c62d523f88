// Code that every command of the engine shares around its sweeps: launching through graphs,
// accounting for waits, finishing.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_RUN_SWEEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_RUN_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/ops/sweep.h"
#include "worker/engine/step/state.h"

namespace coxswain::engine {

// A range of a profiler's timeline.
class Range {
 public:
  explicit Range(const char* name) { kernels::PushRange(name); }
  ~Range() { kernels::PopRange(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

// A kind of sweep, as graphs and time accounting identify it.
struct SweepKind {
  const char* name;
  bool last_micro_step = false;  // whole gradients are reduced
  bool differs_first = false;    // Sweep::first changes its launches
  bool reads_targets = true;     // false: it launches the same whatever rows have a target
  PhaseSeconds* seconds = nullptr;
  double* phase = nullptr;  // field of `seconds`
};

// Launches `body`, which must depend on its arguments alone, or replays its captured graph.
// `visits`: the units that it enters, in order.
void RunSweep(State& state, const Sweep& sweep, const SweepKind& kind, std::vector<int32_t> visits,
              void (*body)(const State&, const Sweep&));

// The forward of a sweep to the final norm, with graphs named `name`.
void RunForwardSweep(State& state, const Sweep& sweep, const char* name, PhaseSeconds* seconds);

// Scalars::loss_sum and all others of a command, to the device; and from it to state.received.
void SendScalars(State& state, const Scalars& scalars);
void ReceiveScalars(State& state);

// Rounds of sweeps of this rank: its own micro-steps, and those in which it only joins others.
int64_t RoundsOf(const State& state, const BinBatch& bins);

// Moves the time of a wait from its phase to comm.
void CountWait(const Stopwatch& exposed, double* phase, PhaseSeconds* seconds);

// Waits for the marks of State::timeline, fills `seconds` and accounts for the waits. Returns the
// error of the group.
absl::Status FinishPhases(State& state, PhaseSeconds* seconds);

// FailedPrecondition when the plan trains nothing: it has no memory for losses and gradients.
absl::Status CheckTrains(const State& state, const std::string& doing);

// The same, and when the weights are not those that were trained any more (LoadWritten).
absl::Status CheckTrainedHere(const State& state, const std::string& doing);

// FailedPrecondition when the plan has several ranks and Connect was not called.
absl::Status CheckGroup(const State& state, const std::string& doing);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_RUN_SWEEP_H_
