#include "worker/engine/engine.h"

#include <sys/resource.h>

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/identity.h"
#include "common/status_macros.h"
#include "kernels/device.h"
#include "kernels/products/gemm.h"
#include "worker/engine/commands/executor.h"
#include "worker/engine/device/chosen_algorithms.h"
#include "worker/engine/generate/generate.h"
#include "worker/engine/link_speed.h"
#include "worker/engine/load_written.h"
#include "worker/engine/make_state.h"
#include "worker/engine/snapshot/write_shard.h"
#include "worker/engine/step/document_loss.h"
#include "worker/engine/step/forward_backward.h"
#include "worker/engine/step/run_sweep.h"
#include "worker/engine/step/step.h"
#include "worker/engine/step/update.h"

namespace coxswain::engine {

struct Engine::Impl {
  std::unique_ptr<State> state;
};

Engine::Engine() : impl_(std::make_unique<Impl>()) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Prepare(const plan::Plan& plan, int rank,
                                                        const std::string& checkpoint_dir,
                                                        const std::string& checkpoint_recipe) {
  std::unique_ptr<Engine> engine(new Engine());
  std::string doing = "prepare";
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(engine->impl_->state,
                     MakeState(plan, rank, checkpoint_dir, &doing, checkpoint_recipe));
    return absl::OkStatus();
  }));
  return engine;
}

absl::Status Engine::Connect(std::unique_ptr<comm::Collectives> group) {
  State& state = *impl_->state;
  if (group->rank() != state.rank || group->world_size() != state.plan.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("connect: group has rank ", group->rank(),
                                                   " of ", group->world_size(), ", the plan ",
                                                   state.rank, " of ", state.plan.world_size()));
  }
  if (group->size(comm::Communicator::kShard) != state.plan.shard) {
    return absl::InvalidArgumentError(
        absl::StrCat("connect: the group's replicas have ", group->size(comm::Communicator::kShard),
                     " ranks, the plan's shard is ", state.plan.shard));
  }
  state.group = std::move(group);
  RETURN_IF_ERROR(state.group->Share(state.arena.device_regions()));
  state.exchange.Connect(state.plan.world_size() > 1 ? state.group.get() : nullptr);
  if (state.plan.world_size() > 1) state.graphs.CaptureAtSecondUse();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<plan::LinkSpeed>> Engine::MeasureLinks() {
  std::vector<plan::LinkSpeed> links;
  const std::string doing = "measure the links";
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(links, engine::MeasureLinks(*impl_->state));
    return absl::OkStatus();
  }));
  return links;
}

absl::StatusOr<StepStats> Engine::Train(const TrainStep& step) {
  StepStats stats;
  const std::string doing = absl::StrCat("step ", step.step);
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunTrainStep(*impl_->state, step));
    return absl::OkStatus();
  }));
  return stats;
}

absl::StatusOr<BatchStats> Engine::ForwardBackward(const GradientBatch& batch) {
  BatchStats stats;
  const std::string doing = absl::StrCat("forward and backward of step ", batch.step);
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunForwardBackward(*impl_->state, batch));
    return absl::OkStatus();
  }));
  return stats;
}

absl::StatusOr<StepStats> Engine::Update(const UpdateStep& step) {
  StepStats stats;
  const std::string doing = absl::StrCat("update of step ", step.step);
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunUpdate(*impl_->state, step));
    return absl::OkStatus();
  }));
  return stats;
}

absl::StatusOr<EvalStats> Engine::Evaluate(const BinBatch& bins,
                                           const kernels::DocumentScalars& documents) {
  EvalStats stats;
  const std::string doing = "evaluate";
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunEvaluation(*impl_->state, bins, documents));
    return absl::OkStatus();
  }));
  return stats;
}

absl::StatusOr<LogProbStats> Engine::LogProbs(const BinBatch& bins, bool without_adapters) {
  LogProbStats stats;
  const std::string doing = "log_probs";
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunLogProbs(*impl_->state, bins, without_adapters));
    return absl::OkStatus();
  }));
  return stats;
}

absl::Status Engine::Load(const WrittenWeights& written) {
  std::string doing = "load";
  return RunGuarded(&doing, [&] { return LoadWritten(*impl_->state, written, &doing); });
}

absl::StatusOr<GenerateStats> Engine::Generate(const GenerateChunk& chunk) {
  GenerateStats stats;
  const std::string doing = "generate";
  RETURN_IF_ERROR(RunGuarded(&doing, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(stats, RunGenerate(*impl_->state, chunk));
    return absl::OkStatus();
  }));
  return stats;
}

absl::Status Engine::Snapshot(int64_t finished_steps) {
  State& state = *impl_->state;
  if (finished_steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot: finished_steps ", finished_steps, "; wanted >= 0"));
  }
  RETURN_IF_ERROR(CheckTrainedHere(state, "snapshot"));
  const std::string doing = absl::StrCat("snapshot of step ", finished_steps);
  return RunGuarded(&doing, [&] {
    return state.snapshot.Take(state.layout, {finished_steps, state.applied_updates}, state.buffers,
                               state.stream);
  });
}

absl::StatusOr<std::vector<ShardFile>> Engine::SaveShard(const std::string& directory,
                                                         int64_t finished_steps) {
  State& state = *impl_->state;
  std::vector<ShardFile> files;
  const auto write = [&](const SnapshotCounters& counters) -> absl::Status {
    ASSIGN_OR_RETURN(
        const ShardFile file,
        WriteShard(state.plan, state.layout, counters, state.buffers,
                   {directory, state.rank, [&] { return state.snapshot.cancelled(); }}));
    files.push_back(file);
    return absl::OkStatus();
  };
  const std::string doing = absl::StrCat("save shard into ", directory);
  RETURN_IF_ERROR(RunGuarded(&doing, [&] { return state.snapshot.Read(finished_steps, write); }));
  return files;
}

void Engine::Abort() {
  CancelSave();
  if (impl_->state->group != nullptr) impl_->state->group->Abort();
}

void Engine::CancelSave() { impl_->state->snapshot.Cancel(); }

comm::Progress Engine::collectives() const {
  return impl_->state->group == nullptr ? comm::Progress() : impl_->state->group->progress();
}

std::string Engine::transport() const {
  return impl_->state->group == nullptr ? "none" : impl_->state->group->transport();
}

std::string Engine::group_fingerprint() const {
  return impl_->state->group == nullptr ? "" : impl_->state->group->fingerprint();
}

int64_t Engine::start_step() const { return impl_->state->start_step; }

int64_t Engine::applied_updates() const { return impl_->state->applied_updates; }

MemoryBytes Engine::memory() const {
  const Arena& arena = impl_->state->arena;
  MemoryBytes memory;
  memory.weights = arena.bytes(plan::MemoryClass::kWeights);
  memory.gradients = arena.bytes(plan::MemoryClass::kGradients);
  memory.optimizer = arena.bytes(plan::MemoryClass::kOptimizer);
  memory.activations = arena.bytes(plan::MemoryClass::kActivations);
  memory.workspace = arena.bytes(plan::MemoryClass::kWorkspace);
  memory.host = arena.bytes(plan::MemoryClass::kHost);
  if (impl_->state->plan.device == DeviceKind::kCuda) {
    memory.peak = static_cast<uint64_t>(kernels::UsedMemoryBytes());
    return memory;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  memory.peak = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  return memory;
}

std::string Engine::chosen_algorithms() const {
  return DescribeAlgorithms(impl_->state->attention_algorithms, kernels::GemmTable());
}

std::string Engine::gemm_table() const { return impl_->state->gemm_table; }

std::string Engine::fingerprint() const {
  std::string fingerprint =
      absl::StrCat("build=", std::string(BuildCommit()), " ", kernels::DeviceFingerprint());
  if (impl_->state->plan.world_size() > 1) {
    absl::StrAppend(&fingerprint, " ", comm::Collectives::Fingerprint());
  }
  return fingerprint;
}

}  // namespace coxswain::engine
