// One rank's engine owns the memory of a plan and executes its commands. It knows tensors and no
// protobuf. The agent calls it from one thread, but for SaveShard, CancelSave and Abort.
#ifndef COXSWAIN_WORKER_ENGINE_ENGINE_H_
#define COXSWAIN_WORKER_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/plan/plan.h"
#include "worker/comm/collectives.h"
#include "worker/engine/commands.h"

namespace coxswain::engine {

class Engine {
 public:
  // Checks that every op of the plan is supported, allocates its buffers, loads base weights and
  // the adapter; with `checkpoint_dir` also masters, moments and counters of that committed
  // checkpoint, of the recipe with hash `checkpoint_recipe` (hex; empty: that of the plan).
  // InvalidArgument for a plan or file that is wrong, NotFound for a missing file,
  // ResourceExhausted for memory: each names the object and both values.
  static absl::StatusOr<std::unique_ptr<Engine>> Prepare(const plan::Plan& plan, int rank,
                                                         const std::string& checkpoint_dir,
                                                         const std::string& checkpoint_recipe = {});
  ~Engine();

  // Gives the engine its group; must be called before Train and Evaluate when the plan has more
  // than one rank.
  absl::Status Connect(std::unique_ptr<comm::Collectives> group);

  // Measures what collectives over all ranks reach: a point for each size that the plan's buffers
  // have room for, ascending; the slower of all-gather and reduce-scatter on this rank. Every rank
  // calls it, after Connect and between steps. Empty for one rank.
  absl::StatusOr<std::vector<plan::LinkSpeed>> MeasureLinks();

  // Runs one optimizer step: micro-steps over the bins with their collectives, norm, clip, AdamW.
  // It also enforces self-verification (verify.h): FailedPrecondition names the tensors.
  absl::StatusOr<StepStats> Train(const TrainStep& step);
  absl::StatusOr<EvalStats> Evaluate(const BinBatch& bins);

  // Continues prompts token by token, as far as the chunk says. The plan sets memory aside for it.
  // FailedPrecondition: logits that are not finite, or no prompts to continue.
  absl::StatusOr<GenerateStats> Generate(const GenerateChunk& chunk);

  // Copies masters, moments and counters as they are before the next update. `finished_steps` names
  // it. FailedPrecondition while the one before is being saved.
  absl::Status Snapshot(int64_t finished_steps);
  // Any thread, beside the commands: writes this rank's tensors of the newest snapshot into
  // `directory`, fsynced. FailedPrecondition when `finished_steps` is not the newest snapshot's,
  // Cancelled after CancelSave.
  absl::StatusOr<std::vector<ShardFile>> SaveShard(const std::string& directory,
                                                   int64_t finished_steps);

  void Abort();       // any thread: wakes a collective in progress, and CancelSave
  void CancelSave();  // any thread: ends a SaveShard in progress, and refuses later ones
  // The progress of the group; any thread may ask once Connect has returned.
  comm::Progress collectives() const;
  std::string transport() const;  // of its collectives, for the log
  // Says, once Connect has returned, what the bits of the group's sums depend on
  // (Collectives::fingerprint).
  std::string group_fingerprint() const;

  int64_t start_step() const;  // 0, or the checkpoint's finished steps
  int64_t applied_updates() const;
  MemoryBytes memory() const;
  std::string chosen_algorithms()
      const;  // algorithms as lines: DescribeAlgorithms (chosen_algorithms.h)
  // The algorithms of this plan's matrix products for UseGemmTable (device.h); empty on the CPU.
  std::string gemm_table() const;
  std::string fingerprint() const;  // build, threads, libraries: what bitwise replay depends on

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_ENGINE_H_
