// The state of a prepared engine and its two commands that compute.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/comm/collectives.h"
#include "worker/engine/arena.h"
#include "worker/engine/batch.h"
#include "worker/engine/bound_ops.h"
#include "worker/engine/buffers.h"
#include "worker/engine/commands.h"
#include "worker/engine/device_handles.h"
#include "worker/engine/graphs.h"
#include "worker/engine/model.h"
#include "worker/engine/timeline.h"
#include "worker/engine/unit_exchange.h"
#include "worker/engine/verified_groups.h"
#include "worker/engine/verify.h"

namespace coxswain::engine {

struct StreamDeleter {
  void operator()(kernels::Stream* stream) const { kernels::DestroyStream(stream); }
};

struct State {
  State(const plan::Plan& plan, int rank);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const plan::Plan plan;
  const int rank;
  const ParameterLayout layout;
  const std::vector<VerifiedGroup> verified_groups;
  const std::unique_ptr<kernels::Stream, StreamDeleter> owned_stream;
  kernels::Stream* const stream;
  BatchStager stager;
  Arena arena;
  Buffers buffers;
  Model model;
  BoundModel ops;                            // views of buffers and model
  std::unique_ptr<comm::Collectives> group;  // null: one rank, or not connected yet
  UnitExchange exchange;
  Graphs graphs;  // may hold calls of the group: gone before it
  Timeline timeline;
  // Waits for other ranks in the step being run, and the phase that each lies in.
  std::vector<std::pair<const Stopwatch*, double*>> waits;
  std::unique_ptr<SelfVerification> verification;
  std::vector<GroupStatistics> loaded_statistics;  // of this rank, before the first step
  bool warming_up = false;                         // no group is there yet, nor needed
  int64_t start_step = 0;
  int64_t applied_updates = 0;
  std::string attention_algorithms;  // as Prepare chose them, for people
  std::string gemm_table;            // of the products launched while warming up

  // What a step sends and gets, pinned. One step is in flight at a time.
  PinnedArray<Scalars> sent{1}, received{1};
  PinnedArray<GroupStatistics> received_statistics{kMaxVerifiedGroups};
};

// Launches the micro-steps of this rank's bins: gradients summed into the gradient buffers and over
// the ranks, the rank's loss sum into scalars->loss_sum. Marks the phases in state.timeline, which
// has begun.
void AccumulateGradients(State& state, const TrainStep& step, PhaseSeconds* seconds);

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step);
absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_H_
