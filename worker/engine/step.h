// The state of a prepared engine and its two commands that compute.
#ifndef COXSWAIN_WORKER_ENGINE_STEP_H_
#define COXSWAIN_WORKER_ENGINE_STEP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/comm/collectives.h"
#include "worker/engine/arena.h"
#include "worker/engine/batch.h"
#include "worker/engine/buffers.h"
#include "worker/engine/engine.h"
#include "worker/engine/model.h"
#include "worker/engine/parts.h"
#include "worker/engine/verify.h"

namespace coxswain::engine {

struct State {
  State(const plan::Plan& plan, int rank);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const plan::Plan plan;
  const int rank;
  const ParameterLayout layout;
  const std::vector<Part> parts;
  kernels::Stream* const stream;
  BatchStager stager;
  Arena arena;
  Buffers buffers;
  Model model;
  std::unique_ptr<SelfVerification> verification;
  std::unique_ptr<comm::Collectives> group;  // null: one rank, or not connected yet
  int64_t start_step = 0;
  int64_t applied_updates = 0;
};

// Allocates, loads and checks; see Engine::Prepare. Throws what the kernels throw; `*doing` says
// what it was at.
absl::StatusOr<std::unique_ptr<State>> MakeState(const plan::Plan& plan, int rank,
                                                 const std::string& checkpoint_dir,
                                                 std::string* doing);

// Gradients of the step summed over the micro-steps of this rank's bins into Buffers::gradients,
// and the rank's loss sum into stats. No communication.
void AccumulateGradients(State& state, const TrainStep& step, StepStats* stats);

absl::StatusOr<StepStats> RunTrainStep(State& state, const TrainStep& step);
absl::StatusOr<EvalStats> RunEvaluation(State& state, const BinBatch& bins);

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_STEP_H_
