#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/rope.h"
#include "worker/engine/optimizer.h"
#include "worker/engine/plan_check.h"
#include "worker/engine/snapshot.h"
#include "worker/engine/step.h"
#include "worker/engine/weights.h"

namespace coxswain::engine {
namespace {

// cos and sin of every position of a bin: a document is at most a bin long.
void FillRopeTables(const plan::Plan& plan, const Buffers& buffers, kernels::Stream* stream) {
  const model::Rope& rope = plan.model.rope;
  kernels::RopeFrequencies frequencies;
  frequencies.head_dim = plan.model.head_dim;
  frequencies.theta = rope.theta;
  frequencies.llama3 = rope.type == "llama3";
  frequencies.factor = rope.factor;
  frequencies.low_freq_factor = rope.low_freq_factor;
  frequencies.high_freq_factor = rope.high_freq_factor;
  frequencies.original_max_position = rope.original_max_position;
  const kernels::RopeTable table = kernels::BuildRopeTable(frequencies, plan.sequence_len);
  const int64_t bytes = static_cast<int64_t>(table.cos.size() * sizeof(float));
  kernels::CopyMemory(buffers.rope_cos, table.cos.data(), bytes, stream);
  kernels::CopyMemory(buffers.rope_sin, table.sin.data(), bytes, stream);
  kernels::Synchronize(stream);
}

}  // namespace

State::State(const plan::Plan& plan_in, int rank_in)
    : plan(plan_in),
      rank(rank_in),
      layout(plan.parameters),
      parts(MakeParts(plan)),
      stream(kernels::CreateStream()),
      stager(plan) {}

State::~State() { kernels::DestroyStream(stream); }

absl::StatusOr<std::unique_ptr<State>> MakeState(const plan::Plan& plan, int rank,
                                                 const std::string& checkpoint_dir,
                                                 std::string* doing) {
  RETURN_IF_ERROR(CheckPlan(plan, rank));
  auto state = std::make_unique<State>(plan, rank);
  state->arena = Arena::Allocate(plan.buffers, doing);
  *doing = "prepare";
  ASSIGN_OR_RETURN(state->buffers, BindBuffers(plan, state->arena));
  Buffers& buffers = state->buffers;
  ASSIGN_OR_RETURN(state->model,
                   BuildModel(plan, state->layout, buffers.weights, buffers.gradients));
  RETURN_IF_ERROR(CheckOps(plan, state->model));
  ASSIGN_OR_RETURN(buffers.scratch, BindScratch(ScratchBytes(plan, state->model), state->arena));
  RETURN_IF_ERROR(state->arena.CheckAllBound());
  FillRopeTables(plan, buffers, state->stream);
  FillTensorLists(plan, state->layout, state->parts, buffers, state->stream);
  *doing = absl::StrCat("load weights of ", plan.model_path);
  RETURN_IF_ERROR(LoadBaseWeights(plan, state->layout, buffers.weights));
  if (checkpoint_dir.empty()) {
    *doing = "initialise the adapter";
    RETURN_IF_ERROR(LoadAdapter(plan, state->layout, buffers.weights));
  } else {
    *doing = absl::StrCat("load checkpoint ", checkpoint_dir);
    ASSIGN_OR_RETURN(const SnapshotCounters counters,
                     LoadShards(plan, state->layout, checkpoint_dir, buffers));
    state->start_step = counters.finished_steps;
    state->applied_updates = counters.applied_updates;
  }
  state->verification =
      std::make_unique<SelfVerification>(state->plan, state->layout, state->parts, buffers.weights);
  return state;
}

}  // namespace coxswain::engine
