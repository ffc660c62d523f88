// One rank's engine owns the memory of a plan and executes its commands. It knows tensors and no
// protobuf. The agent calls it from one thread, except for SaveShard, CancelSave and Abort.
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
#include "worker/engine/commands/commands.h"

namespace coxswain::engine {

class Engine {
 public:
  // Checks that every op of the plan is supported, allocates its buffers, and loads base weights
  // and adapter. With `checkpoint_dir` it also loads masters, moments and counters of that
  // committed checkpoint. `checkpoint_recipe`: the hash of the checkpoint's recipe in hex; empty:
  // that of the plan. InvalidArgument: a wrong plan or file. NotFound: a missing file.
  // ResourceExhausted: too little memory. Each names the object and both values.
  static absl::StatusOr<std::unique_ptr<Engine>> Prepare(const plan::Plan& plan, int rank,
                                                         const std::string& checkpoint_dir,
                                                         const std::string& checkpoint_recipe = {});
  ~Engine();

  // Gives the engine its group; must be called before Train and Evaluate when the plan has more
  // than one rank.
  absl::Status Connect(std::unique_ptr<comm::Collectives> group);

  // Measures the speed of collectives over all ranks: one point for each size for which the plan's
  // buffers have room, ascending. A point is the slower of all-gather and reduce-scatter on this
  // rank. Every rank must call it, after Connect and between steps. Empty for one rank.
  absl::StatusOr<std::vector<plan::LinkSpeed>> MeasureLinks();

  // Runs one optimizer step: micro-steps over the bins with their collectives, norm, clip, AdamW.
  // It also enforces self-verification (verify.h): FailedPrecondition names the tensors.
  absl::StatusOr<StepStats> Train(const TrainStep& step);
  // The halves of a step: any number of batches, then the update by their gradients. Every other
  // command may run between them. With one batch the results have the bits of Train.
  // FailedPrecondition: the order is another, or the step or its denominator changes within it.
  absl::StatusOr<BatchStats> ForwardBackward(const GradientBatch& batch);
  absl::StatusOr<StepStats> Update(const UpdateStep& step);
  // `documents`: of a loss of documents, of the whole evaluation.
  absl::StatusOr<EvalStats> Evaluate(const BinBatch& bins,
                                     const kernels::DocumentScalars& documents = {});

  // Sums the log-probabilities of each document's targets, of the model as it is or of its base.
  // FailedPrecondition as RunLogProbs (document_loss.h).
  absl::StatusOr<LogProbStats> LogProbs(const BinBatch& bins, bool without_adapters);

  // Reads written weights in place of the trained ones; ranks hold equal ones once each has done
  // so. Nothing is trained or saved from here on. InvalidArgument, NotFound, DataLoss or
  // FailedPrecondition: the files cannot be read as that, as of Prepare; the weights are undefined
  // until another Load is OK.
  absl::Status Load(const WrittenWeights& written);

  // Continues prompts token by token, up to the length in the chunk. The plan sets memory aside for
  // it. FailedPrecondition: logits are not finite, or there are no prompts to continue.
  absl::StatusOr<GenerateStats> Generate(const GenerateChunk& chunk);

  // Copies masters, moments and counters before the next update. `finished_steps` names the
  // snapshot. FailedPrecondition while the previous snapshot is being saved.
  absl::Status Snapshot(int64_t finished_steps);
  // Any thread, also during commands: writes this rank's tensors of the newest snapshot into
  // `directory`, fsynced. FailedPrecondition when `finished_steps` is not the newest snapshot's,
  // Cancelled after CancelSave.
  absl::StatusOr<std::vector<ShardFile>> SaveShard(const std::string& directory,
                                                   int64_t finished_steps);

  void Abort();       // any thread: ends a collective in progress, and calls CancelSave
  void CancelSave();  // any thread: ends a SaveShard in progress, and refuses later ones
  // The progress of the group; any thread may ask once Connect has returned.
  comm::Progress collectives() const;
  std::string transport() const;  // transport of the collectives, for the log
  // The facts on which the bits of the group's sums depend (Collectives::fingerprint). Call it
  // after Connect has returned.
  std::string group_fingerprint() const;

  int64_t start_step() const;  // 0, or the checkpoint's finished steps
  int64_t applied_updates() const;
  MemoryBytes memory() const;
  std::string chosen_algorithms() const;  // lines of DescribeAlgorithms (chosen_algorithms.h)
  // The algorithms of this plan's matrix products for UseGemmTable (device.h); empty on the CPU.
  std::string gemm_table() const;
  // Build, threads, libraries: facts on which bitwise replay depends.
  std::string fingerprint() const;

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_ENGINE_H_
