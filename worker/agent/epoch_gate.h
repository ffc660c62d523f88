// The fence: which messages this worker accepts. Safety rests on these comparisons, not on clocks.
#ifndef COXSWAIN_WORKER_AGENT_EPOCH_GATE_H_
#define COXSWAIN_WORKER_AGENT_EPOCH_GATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain::agent {

// The gate is not thread-safe. Every refusal of a stale fence is ABORTED and names both values.
class EpochGate {
 public:
  explicit EpochGate(std::string incarnation) : incarnation_(std::move(incarnation)) {}

  // Terms below the highest seen are refused from now on.
  void SeeTerm(uint64_t term);

  // Says whether `fence` of a Prepare may begin an epoch. True: after the current one was ended,
  // which it supersedes. The answer is Aborted also while this worker is in another job's epoch of
  // the same term, or in an epoch of another controller's store. Epochs of a job rise within a term
  // only: a controller whose store was restored counts on from there, under a higher term.
  absl::StatusOr<bool> CheckOpen(const v1::Fence& fence);
  void Open(const v1::Fence& fence);

  // Says whether `fence` of Connect, Run or SaveShard is that of the current epoch. A higher term
  // of the same epoch is a controller that came back: current() takes the term over.
  absl::Status Check(const v1::Fence& fence);

  // For the fence of Abort or Release it says true when it is of the current epoch; false when it
  // has ended here or never began (then it never will). `gang_term`: that gave the gang its epoch;
  // 0: the fence's.
  absl::StatusOr<bool> CheckEnd(const v1::Fence& fence, uint64_t gang_term = 0);
  void Close(const std::string& reason);

  const std::optional<v1::Fence>& current() const { return current_; }
  uint64_t highest_term() const { return highest_term_; }
  uint64_t refused() const { return refused_; }  // stale messages so far

 private:
  using Number = std::pair<uint64_t, uint64_t>;  // of a job's gang: term and epoch

  absl::Status CheckSender(const v1::Fence& fence);
  absl::Status Refuse(const std::string& message);

  const std::string incarnation_;
  uint64_t highest_term_ = 0;
  std::optional<v1::Fence> current_;
  std::map<std::string, Number> ended_;  // job -> highest that can no longer begin
  std::string end_reason_;               // of the epoch closed last
  uint64_t refused_ = 0;
};

}  // namespace coxswain::agent

#endif  // COXSWAIN_WORKER_AGENT_EPOCH_GATE_H_
