#include "worker/engine/make_state.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/plan/buffer_names.h"
#include "common/plan/routers.h"
#include "common/status_macros.h"
#include "worker/engine/device/device.h"
#include "worker/engine/exchange/weight_codes.h"
#include "worker/engine/memory/parameter_store.h"
#include "worker/engine/memory/rope_tables.h"
#include "worker/engine/memory/router_corrections.h"
#include "worker/engine/memory/weights.h"
#include "worker/engine/memory/written_gradients.h"
#include "worker/engine/ops/bind_ops.h"
#include "worker/engine/ops/dora.h"
#include "worker/engine/ops/op_specs.h"
#include "worker/engine/snapshot/load_shards.h"
#include "worker/engine/step/optimizer.h"
#include "worker/engine/step/plan_check.h"
#include "worker/engine/step/verified_step.h"
#include "worker/engine/warm_up.h"

namespace coxswain::engine {
namespace {

// Extents of the two kinds of micro-steps, and one line on the choice for each.
std::string PrepareAttentions(const State& state) {
  std::string algorithms;
  for (const kernels::AttentionSpec& spec : HeadsSpecs(state.model, state.plan.architecture)) {
    for (const kernels::AttentionExtents& extents : AttentionShapes(state.plan)) {
      absl::StrAppend(&algorithms, algorithms.empty() ? "" : "; ",
                      kernels::PrepareAttention(spec, extents, state.stream));
    }
  }
  return algorithms;
}

// Ranks let go of each other's memory one after the other: what an earlier epoch had here can still
// be held by another rank.
void AwaitMemory(const plan::Plan& plan) {
  if (plan.device != DeviceKind::kCuda) return;
  int64_t need = 0;
  for (const plan::Buffer& buffer : plan.buffers) {
    if (buffer.memory_class == plan::MemoryClass::kHost || !buffer.alias_of.empty()) continue;
    need += buffer.bytes;
  }
  (void)SettledFreeBytes(need, kernels::FreeMemoryBytes);  // too little is told by Allocate
}

absl::Status LoadCheckpoint(State& state, const std::string& directory, const std::string& recipe,
                            std::string* doing) {
  if (directory.empty()) return absl::OkStatus();
  *doing = absl::StrCat("load checkpoint ", directory);
  ASSIGN_OR_RETURN(
      const SnapshotCounters counters,
      LoadShards(state.plan, state.layout, directory,
                 recipe.empty() ? ToHex(state.plan.recipe_hash) : recipe, state.buffers));
  state.start_step = counters.finished_steps;
  state.applied_updates = counters.applied_updates;
  return absl::OkStatus();
}

// Its routers are not counted and its operands not observed: those of the step are the policy's.
std::unique_ptr<Reference> MakeReference(const State& state) {
  auto reference = std::make_unique<Reference>();
  reference->model = WithoutAdapters(state.model);
  Buffers uncounted = state.buffers;
  uncounted.router_use = nullptr;
  uncounted.fp8_observed = nullptr;
  reference->ops = BindOps(state.plan, reference->model, uncounted);
  return reference;
}

// By its loss, or for the references of a policy loss, which LogProbs gives.
bool AsksForBase(const plan::Plan& plan) {
  return plan.document_loss.reference == "base" ||
         (plan.policy_loss.has_kl() && plan.lora.rank > 0);
}

}  // namespace

State::State(const plan::Plan& plan_in, int rank_in)
    : plan(plan_in),
      rank(rank_in),
      layout(plan, rank),
      verified_tensors(MakeVerifiedTensors(plan)),
      written_gradients(WrittenBytes(plan, layout.map)),
      router_use_doubles(plan.trains() ? plan::RouterUseDoubles(plan) : 0),
      stream(owned_stream.get()),
      stager(plan),
      exchange(plan, layout, buffers, stream),
      snapshot(plan_in),
      generation(plan.generates() ? std::make_unique<GenerationState>(plan) : nullptr),
      received_use(std::max<int64_t>(1, router_use_doubles)),
      received_sums(plan::BatchExtents(plan).scored_documents),
      received_rows(plan.policy_loss.any() ? plan::BatchExtents(plan).target_rows : 1),
      received_norms(std::max<int64_t>(1, static_cast<int64_t>(verified_tensors.size()))),
      received_bits(std::max<int64_t>(1, static_cast<int64_t>(verified_tensors.size()))) {}

absl::Status LoadParameters(State& state, const plan::Plan& plan, const Change& change,
                            std::string* doing) {
  const ParameterStore store(plan, state.layout, state.buffers, change);
  *doing = absl::StrCat("load weights of ", plan.model_path);
  RETURN_IF_ERROR(LoadBaseWeights(plan, store));
  RETURN_IF_ERROR(LoadCorrections(plan, state.layout, state.buffers));
  *doing = "initialise the adapter";
  RETURN_IF_ERROR(LoadAdapter(plan, store));
  return InitDora(plan, state.model, state.buffers, store, state.stream);
}

absl::StatusOr<std::unique_ptr<State>> MakeState(const plan::Plan& plan, int rank,
                                                 const std::string& checkpoint_dir,
                                                 std::string* doing,
                                                 const std::string& checkpoint_recipe) {
  RETURN_IF_ERROR(CheckPlan(plan, rank));
  auto state = std::make_unique<State>(plan, rank);
  AwaitMemory(plan);
  state->arena = Arena::Allocate(plan.buffers, doing);
  *doing = "prepare";
  ASSIGN_OR_RETURN(state->buffers, BindBuffers(plan, state->layout, state->arena));
  Buffers& buffers = state->buffers;
  ASSIGN_OR_RETURN(state->model, BuildModel(plan, state->layout, buffers.flats));
  RETURN_IF_ERROR(CheckOps(plan, state->model));
  state->ops = BindOps(plan, state->model, buffers);
  if (AsksForBase(plan)) state->reference = MakeReference(*state);
  state->attention_algorithms = PrepareAttentions(*state);
  const int64_t scratch = ScratchBytes(plan, state->model);
  if (plan.device == DeviceKind::kCuda) state->arena.Shrink(plan::buffers::kScratch, scratch);
  ASSIGN_OR_RETURN(buffers.scratch, BindScratch(scratch, state->arena));
  RETURN_IF_ERROR(state->arena.CheckAllBound());
  FillRopeTables(plan, buffers, state->stream);
  FillFp8Constants(buffers, state->stream);
  if (plan.trains()) FillRecords(plan, state->layout, buffers);
  RETURN_IF_ERROR(LoadParameters(*state, plan, Change(), doing));
  *doing = "verify";
  BeginVerification(*state);
  if (plan.device == DeviceKind::kCuda) {
    *doing = "warm up";
    WarmUp(*state);
    BeginVerification(*state);
  }
  RETURN_IF_ERROR(LoadCheckpoint(*state, checkpoint_dir, checkpoint_recipe, doing));
  if (!checkpoint_dir.empty()) BeginVerification(*state);
  return state;
}

}  // namespace coxswain::engine
