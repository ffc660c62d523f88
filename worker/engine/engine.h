// One rank's engine: owns the memory of a plan and executes its commands. Knows tensors, knows no
// protobuf. Not thread-safe but for Abort(): the agent calls it from one thread.
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

namespace coxswain::engine {

// Bins of this rank: whole documents, in order; T tokens in all.
struct BinBatch {
  std::vector<int64_t> bin_ids;            // global bin index
  std::vector<int32_t> documents_per_bin;  // >= 1 each
  std::vector<int32_t> document_lengths;   // >= 1 each, sum = T
  std::vector<int32_t> token_ids;          // [T], in [0, vocab)
  std::vector<uint8_t> targets;            // [T], 1: the token after t is a target of t
  // Of the rank that has the most; 0: as many as these bins take. Ranks that gather or reduce in
  // every micro-step (ZeRO 2, 3) join so many.
  int64_t micro_steps = 0;
};

struct TrainStep {
  int64_t step = 0;  // 0-based
  BinBatch bins;
  int64_t loss_denominator = 1;  // targets of the whole global batch
  double learning_rate = 0.0;    // base rate; groups multiply by lr_scale
};

// Phases add up to the step; comm is the time in which compute waited for other ranks.
struct PhaseSeconds {
  double forward = 0, backward = 0, comm = 0, optimizer = 0, step = 0;
};

struct MemoryBytes {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  uint64_t host = 0;  // of the host, beside what a GPU worker has on the device
  uint64_t peak = 0;  // in use now: of the device, on the CPU the process's largest resident set
};

struct StepStats {
  double loss_sum = 0;         // of this rank's bins, before the update
  double global_loss_sum = 0;  // over all ranks
  int64_t targets = 0;         // of this rank's bins
  int64_t tokens = 0;
  double grad_norm = 0;   // global, before clipping
  int64_t nonfinite = 0;  // non-finite gradient elements, all ranks
  bool applied = false;
  PhaseSeconds seconds;
};

struct EvalStats {
  double loss_sum = 0;  // of this rank's bins
  int64_t targets = 0;
  int64_t correct_targets = 0;  // that are the first maximum of their row of logits
  int64_t tokens = 0;
  PhaseSeconds seconds;
};

struct ShardFile {
  std::string name;
  int64_t bytes = 0;
  std::string sha256;  // lower-case hex
};

// Payload of a status after which the device does nothing more for this process: it must end.
inline constexpr char kDeviceLost[] = "coxswain.engine/device-lost";

class Engine {
 public:
  // Checks that every op of the plan is supported, allocates its buffers, loads base weights and
  // the adapter; with `checkpoint_dir` also masters, moments and counters of that committed
  // checkpoint. InvalidArgument for a plan or file that is wrong, NotFound for a missing file,
  // ResourceExhausted for memory: each names the object and both values.
  static absl::StatusOr<std::unique_ptr<Engine>> Prepare(const plan::Plan& plan, int rank,
                                                         const std::string& checkpoint_dir);
  ~Engine();

  // Gives the engine its group; must be called before Train and Evaluate when the plan has more
  // than one rank.
  absl::Status Connect(std::unique_ptr<comm::Collectives> group);

  // What collectives over all ranks reach, a point for each size that the plan's buffers have room
  // for, ascending; the slower of all-gather and reduce-scatter on this rank. Every rank calls it,
  // after Connect and between steps. Empty for one rank.
  absl::StatusOr<std::vector<plan::LinkSpeed>> MeasureLinks();

  // One optimizer step: micro-steps over the bins with their collectives, norm, clip, AdamW. Also
  // enforces the self-verification of design.md section 6: FailedPrecondition names the group.
  absl::StatusOr<StepStats> Train(const TrainStep& step);
  absl::StatusOr<EvalStats> Evaluate(const BinBatch& bins);

  // Copies masters, moments and counters; returns their digest (hex). `finished_steps` names it.
  absl::StatusOr<std::string> Snapshot(int64_t finished_steps);
  // Writes this rank's tensors of the newest snapshot into `directory`, fsynced. FailedPrecondition
  // when `finished_steps` is not the newest snapshot's.
  absl::StatusOr<std::vector<ShardFile>> SaveShard(const std::string& directory,
                                                   int64_t finished_steps);

  void Abort();  // any thread: wakes a collective in progress
  // Of the group; any thread, once Connect has returned.
  comm::Progress collectives() const;
  std::string transport() const;  // of its collectives, for the log
  // Of its collectives, once Connect has returned: what the bits of their sums depend on
  // (Collectives::fingerprint).
  std::string group_fingerprint() const;

  int64_t start_step() const;  // 0, or the checkpoint's finished steps
  int64_t applied_updates() const;
  MemoryBytes memory() const;
  std::string choices() const;  // algorithms as lines: DescribeChoices (choices.h)
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
