#include "worker/engine/step/run_sweep.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/commands/work_count.h"
#include "worker/engine/ops/micro_step.h"

namespace coxswain::engine {

// A warm-up computes alone, whatever comes of it.
absl::Status CheckGroup(const State& state, const std::string& doing) {
  if (state.plan.world_size() == 1 || state.group != nullptr || state.warming_up) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(doing, ": rank ", state.rank, " of ",
                                                    state.plan.world_size(),
                                                    " ranks has no group; Connect comes first"));
}

absl::Status CheckTrains(const State& state, const std::string& doing) {
  if (state.plan.trains()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(doing, ": the plan trains nothing, it only answers prompts"));
}

absl::Status CheckTrainedHere(const State& state, const std::string& doing) {
  RETURN_IF_ERROR(CheckTrains(state, doing));
  if (!state.holds_written) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(doing, ": the engine holds weights that were read back from files"));
}

void SendScalars(State& state, const Scalars& scalars) {
  state.sent[0] = scalars;
  kernels::CopyMemory(state.buffers.scalars, state.sent.data(), sizeof(Scalars), state.stream);
}

void ReceiveScalars(State& state) {
  kernels::CopyMemory(state.received.data(), state.buffers.scalars, sizeof(Scalars), state.stream);
}

int64_t RoundsOf(const State& state, const BinBatch& bins) {
  const int64_t size = state.plan.micro_batch_bins;
  const int64_t own = (static_cast<int64_t>(bins.bin_ids.size()) + size - 1) / size;
  return std::max({own, bins.micro_steps, state.plan.world_size() > 1 ? int64_t{1} : int64_t{0}});
}

void CountWait(const Stopwatch& exposed, double* phase, PhaseSeconds* seconds) {
  const double waited = exposed.Seconds();
  *phase -= waited;
  seconds->comm += waited;
}

void RunSweep(State& state, const Sweep& sweep, const SweepKind& kind, std::vector<int32_t> visits,
              void (*body)(const State&, const Sweep&)) {
  CountWork();
  const Range range(kind.name);
  const ExchangeScript script{
      .visits = std::move(visits),
      .start = state.exchange.residency(),
      .last_micro_step = kind.last_micro_step,
      .codes = state.exchange.GathersCodes() && sweep.cache == CacheUse::kNone};
  const bool first = sweep.first && kind.differs_first;
  Sweep seen = sweep;
  if (!kind.reads_targets) seen.batch.target_rows = seen.batch.scored = 0;
  const Stopwatch& exposed = state.graphs.Run(
      absl::StrCat(kind.name, first ? " first" : "", sweep.after_load ? " after load" : "",
                   script.Key()),
      seen.batch,
      [&state, seen, script, body](Stopwatch* watch) {
        watch->Reset();
        UnitSweep units(state.exchange, script, watch);
        Sweep exchanging = seen;
        exchanging.units = &units;
        body(state, exchanging);
        units.Finish();
      },
      state.stream);
  state.exchange.Launched(script);
  if (state.plan.device == DeviceKind::kCpu) {
    CountWait(exposed, kind.phase, kind.seconds);
  } else {
    state.waits.push_back({&exposed, kind.phase});
  }
}

void RunForwardSweep(State& state, const Sweep& sweep, const char* name, PhaseSeconds* seconds) {
  Sweep own = sweep;
  own.after_load = sweep.model.reads_fp8_weights_once() && !state.has_frozen_codes && !sweep.idle();
  const SweepKind kind{.name = name,
                       .differs_first = sweep.model.first_differs(),
                       .reads_targets = false,
                       .seconds = seconds,
                       .phase = &seconds->forward};
  RunSweep(state, own, kind, ForwardVisits(sweep.model),
           [](const State&, const Sweep& p) { ForwardToFinalNorm(p); });
  if (own.after_load) state.has_frozen_codes = true;
}

absl::Status FinishPhases(State& state, PhaseSeconds* seconds) {
  seconds->step = state.timeline.Finish();
  for (const auto& [exposed, phase] : state.waits) CountWait(*exposed, phase, seconds);
  state.waits.clear();
  if (state.group != nullptr) RETURN_IF_ERROR(state.group->Poll());
  return state.exchange.status();
}

}  // namespace coxswain::engine
