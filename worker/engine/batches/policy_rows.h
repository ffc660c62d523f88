// What the commands of a policy loss bring for each target, checked and staged.
#ifndef COXSWAIN_WORKER_ENGINE_BATCHES_POLICY_ROWS_H_
#define COXSWAIN_WORKER_ENGINE_BATCHES_POLICY_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/plan/plan.h"
#include "worker/engine/commands/commands.h"
#include "worker/engine/device/device_handles.h"
#include "worker/engine/memory/buffers.h"

namespace coxswain::engine {

// InvalidArgument names all counts: advantages and old log-probabilities come with every target
// where the plan has a policy loss and it is `scored`, references where it has a KL term too, else
// none.
absl::Status CheckPolicyRows(const plan::PolicyLoss& loss, const BinBatch& bins, bool scored);

// Those of a micro-step, in the order of its rows with a target, in pinned memory.
class PolicyRows {
 public:
  explicit PolicyRows(const plan::Plan& plan);

  void Clear();
  // Of targets [begin, begin + count) of `bins`.
  void Append(const BinBatch& bins, size_t begin, int64_t count);
  void CopyTo(const PolicyBuffers& buffers, kernels::Stream* stream) const;

 private:
  PinnedArray<float> old_logps_, advantages_, references_;
};

}  // namespace coxswain::engine

#endif  // COXSWAIN_WORKER_ENGINE_BATCHES_POLICY_ROWS_H_
