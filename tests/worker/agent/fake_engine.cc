#include "tests/worker/agent/fake_engine.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/engine/device/device.h"

namespace coxswain {
namespace fake_engine {
namespace {

std::mutex mu;
Hooks hooks;
std::atomic<int> live{0};

Hooks Current() {
  std::lock_guard<std::mutex> lock(mu);
  return hooks;
}

}  // namespace

void SetHooks(Hooks value) {
  std::lock_guard<std::mutex> lock(mu);
  hooks = std::move(value);
}

int LiveEngines() { return live; }

}  // namespace fake_engine

namespace engine {

using Clock = std::chrono::steady_clock;

struct Engine::Impl {
  plan::Plan plan;
  int rank = 0;
  int64_t start_step = 0;
  int64_t applied = 0;
  int64_t snapshot_step = -1;
  int64_t snapshot_applied = 0;
  double loss = 0, weighted = 0;  // of the batches since the last update
  int64_t denominator = 0;        // of these; 0: there are none
  std::unique_ptr<comm::Collectives> group;
  std::atomic<bool> aborted{false};
  std::atomic<bool> save_cancelled{false};
};

Engine::Engine() : impl_(std::make_unique<Impl>()) { ++fake_engine::live; }
Engine::~Engine() { --fake_engine::live; }

absl::StatusOr<std::unique_ptr<Engine>> Engine::Prepare(const plan::Plan& plan, int rank,
                                                        const std::string& checkpoint_dir,
                                                        const std::string& /*checkpoint_recipe*/) {
  if (const auto hook = fake_engine::Current().prepare) RETURN_IF_ERROR(hook(plan, rank));
  std::unique_ptr<Engine> engine(new Engine);
  engine->impl_->plan = plan;
  engine->impl_->rank = rank;
  if (!checkpoint_dir.empty()) {
    const std::string path = absl::StrCat(checkpoint_dir, "/rank-", rank, ".safetensors");
    std::ifstream in(path);
    if (!(in >> engine->impl_->start_step >> engine->impl_->applied)) {
      return absl::NotFoundError(absl::StrCat("cannot read ", path));
    }
  }
  return engine;
}

absl::Status Engine::Connect(std::unique_ptr<comm::Collectives> group) {
  impl_->group = std::move(group);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<plan::LinkSpeed>> Engine::MeasureLinks() {
  return std::vector<plan::LinkSpeed>();
}

namespace {

struct Sums {
  double weighted = 0;  // of (token + 1) at targets
  int64_t targets = 0;
};

Sums SumsOf(const BinBatch& bins) {
  Sums sums;
  for (size_t t = 0; t < bins.token_ids.size(); ++t) {
    if (!bins.targets[t]) continue;
    sums.weighted += bins.token_ids[t] + 1;
    ++sums.targets;
  }
  return sums;
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

absl::StatusOr<BatchStats> Engine::ForwardBackward(const GradientBatch& batch) {
  const auto start = Clock::now();
  if (const auto hook = fake_engine::Current().train) {
    RETURN_IF_ERROR(
        hook(impl_->rank, batch.step, [impl = impl_.get()] { return impl->aborted.load(); }));
  }
  const Sums sums = SumsOf(batch.bins);
  BatchStats stats;
  stats.tokens = static_cast<int64_t>(batch.bins.token_ids.size());
  stats.targets = sums.targets;
  stats.loss_sum = sums.weighted / 1000 / static_cast<double>(1 + impl_->applied);
  stats.seconds.forward = SecondsSince(start);
  stats.policy = fake_engine::Current().policy;
  impl_->loss += stats.loss_sum;
  impl_->weighted += sums.weighted;
  impl_->denominator = batch.loss_denominator;
  return stats;
}

absl::StatusOr<StepStats> Engine::Update(const UpdateStep& /*step*/) {
  if (impl_->denominator == 0) return absl::FailedPreconditionError("update: no gradients");
  const auto start = Clock::now();
  StepStats stats;
  stats.loss_sum = impl_->loss;
  stats.loss_denominator = impl_->denominator;
  double totals[2] = {impl_->loss, impl_->weighted};
  impl_->loss = impl_->weighted = 0;
  impl_->denominator = 0;
  if (impl_->group != nullptr) {
    RETURN_IF_ERROR(impl_->group->AllReduceSum(comm::Communicator::kWorld, totals, 2, nullptr));
  }
  stats.global_loss_sum = totals[0];
  stats.grad_norm = std::abs(totals[1]) / static_cast<double>(stats.loss_denominator);
  stats.applied = true;
  stats.experts = fake_engine::Current().experts;
  ++impl_->applied;
  stats.seconds.comm = stats.seconds.step = SecondsSince(start);
  return stats;
}

absl::StatusOr<StepStats> Engine::Train(const TrainStep& step) {
  ASSIGN_OR_RETURN(const BatchStats batch, ForwardBackward(step));
  ASSIGN_OR_RETURN(StepStats stats, Update(step.update()));
  stats.tokens = batch.tokens;
  stats.targets = batch.targets;
  stats.policy = batch.policy;
  stats.seconds.forward = batch.seconds.forward;
  stats.seconds.step += batch.seconds.forward;
  return stats;
}

absl::StatusOr<EvalStats> Engine::Evaluate(const BinBatch& bins,
                                           const kernels::DocumentScalars& /*documents*/) {
  if (const auto hook = fake_engine::Current().evaluate) RETURN_IF_ERROR(hook(impl_->rank));
  const Sums sums = SumsOf(bins);
  EvalStats stats;
  stats.policy = fake_engine::Current().policy;
  stats.tokens = static_cast<int64_t>(bins.token_ids.size());
  stats.targets = sums.targets;
  stats.correct_targets = sums.targets / 2;
  stats.loss_sum = sums.weighted / 1000 / static_cast<double>(1 + impl_->applied);
  return stats;
}

// The tokens of each document, added up, and the token that each target is.
absl::StatusOr<LogProbStats> Engine::LogProbs(const BinBatch& bins, bool without_adapters) {
  LogProbStats stats;
  size_t token = 0;
  for (const int32_t length : bins.document_lengths) {
    const auto begin = bins.token_ids.begin() + static_cast<int64_t>(token);
    stats.sums.push_back(std::accumulate(begin, begin + length, without_adapters ? 1.0 : 0.0));
    token += static_cast<size_t>(length);
  }
  for (size_t t = 0; t < bins.targets.size(); ++t) {
    if (bins.targets[t] != 0) stats.of_targets.push_back(static_cast<float>(bins.token_ids[t + 1]));
  }
  return stats;
}

// Reads nothing: whether the folder is there is all that it looks at.
absl::Status Engine::Load(const WrittenWeights& written) {
  const std::string folder =
      absl::StrCat(written.model_dir, written.adapter_dir, written.checkpoint_dir);
  if (std::filesystem::is_directory(folder)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no folder ", folder));
}

// Writes the last token of each prompt again and again, and ends the first text.
absl::StatusOr<GenerateStats> Engine::Generate(const GenerateChunk& chunk) {
  GenerateStats stats;
  for (const std::vector<int32_t>& prompt : chunk.prompts) {
    stats.texts.push_back(
        {.ids = std::vector<int32_t>(static_cast<size_t>(chunk.tokens), prompt.back())});
  }
  if (!stats.texts.empty()) stats.texts[0].ended = chunk.sampling.temperature > 0;
  if (!stats.texts.empty()) stats.texts[0].cut = chunk.ends.size() == 2;
  return stats;
}

absl::Status Engine::Snapshot(int64_t finished_steps) {
  if (const auto hook = fake_engine::Current().snapshot) {
    RETURN_IF_ERROR(hook(impl_->rank, finished_steps));
  }
  impl_->snapshot_step = finished_steps;
  impl_->snapshot_applied = impl_->applied;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShardFile>> Engine::SaveShard(const std::string& directory,
                                                         int64_t finished_steps) {
  if (const auto hook = fake_engine::Current().save) {
    RETURN_IF_ERROR(
        hook(impl_->rank, [impl = impl_.get()] { return impl->save_cancelled.load(); }));
  }
  if (finished_steps != impl_->snapshot_step) {
    return absl::FailedPreconditionError(absl::StrCat("SaveShard of step ", finished_steps,
                                                      ", the newest snapshot is of step ",
                                                      impl_->snapshot_step));
  }
  const std::string name = absl::StrCat("rank-", impl_->rank, ".safetensors");
  const std::string text = absl::StrCat(impl_->snapshot_step, " ", impl_->snapshot_applied, "\n");
  std::ofstream out(directory + "/" + name);
  if (!(out << text) || !out.flush()) {
    return absl::NotFoundError(absl::StrCat("cannot write ", directory, "/", name));
  }
  return std::vector<ShardFile>{{name, DigestsOf(text)}};
}

void Engine::Abort() {
  impl_->aborted = true;
  CancelSave();
  if (impl_->group != nullptr) impl_->group->Abort();
}

void Engine::CancelSave() { impl_->save_cancelled = true; }

std::string Engine::transport() const { return "none"; }
std::string Engine::group_fingerprint() const {
  return impl_->group == nullptr ? "" : impl_->group->fingerprint();
}

comm::Progress Engine::collectives() const {
  return impl_->group == nullptr ? comm::Progress() : impl_->group->progress();
}

int64_t Engine::start_step() const { return impl_->start_step; }
int64_t Engine::applied_updates() const { return impl_->applied; }
MemoryBytes Engine::memory() const {
  MemoryBytes memory;
  memory.weights = 1000;
  memory.gradients = 200;
  memory.optimizer = 400;
  memory.activations = 300;
  memory.workspace = 50;
  memory.host = 70;
  memory.peak = 1950;
  return memory;
}
std::string Engine::chosen_algorithms() const { return "attention: fake"; }
std::string Engine::gemm_table() const { return absl::StrCat("table of rank ", impl_->rank); }
std::string Engine::fingerprint() const { return "fake"; }

absl::StatusOr<int> CountDevices() { return 1; }
absl::StatusOr<kernels::DeviceDescription> OpenDevice(int index) {
  return kernels::DeviceDescription{.kind = "cpu"};
}
absl::StatusOr<bool> UseGemmTable(const std::string& table) {
  if (table.empty()) return false;
  if (const auto hook = fake_engine::Current().use_gemm_table) hook(table);
  return true;
}
absl::StatusOr<bool> GemmTableFile::Load() { return false; }
absl::StatusOr<bool> GemmTableFile::Save() { return false; }

}  // namespace engine
}  // namespace coxswain
