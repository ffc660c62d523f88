#include "controller/planner/memory/memory.h"

#include "common/plan/extents.h"

namespace coxswain::planner {

namespace {

// The world, and the ranks of a replica or of a part where these are some but not all of it.
// Communicators of the same ranks are one: worker/comm/nccl_group.h.
uint64_t NcclCommunicators(const plan::Plan& plan) {
  if (plan.device != DeviceKind::kCuda || plan.world_size() == 1) return 0;
  return plan.shard > 1 && plan.replicate > 1 ? 3 : 1;
}

}  // namespace

MemoryByClass PlannedMemory(const plan::Plan& plan) {
  MemoryByClass sum;
  if (plan.device == DeviceKind::kCuda) sum.runtime = plan::kCudaRuntimeBytes;
  const uint64_t communicators = NcclCommunicators(plan);
  if (communicators > 0) {
    sum.communication = kNcclBytesPerCommunicator * communicators + kCopyStagingBytes;
  }
  for (const plan::Buffer& buffer : plan.buffers) {
    const auto bytes = static_cast<uint64_t>(buffer.bytes);
    switch (buffer.memory_class) {
      case plan::MemoryClass::kWeights:
        sum.weights += bytes;
        break;
      case plan::MemoryClass::kGradients:
        sum.gradients += bytes;
        break;
      case plan::MemoryClass::kOptimizer:
        sum.optimizer += bytes;
        break;
      case plan::MemoryClass::kActivations:
        sum.activations += bytes;
        break;
      case plan::MemoryClass::kWorkspace:
        sum.workspace += bytes;
        break;
      case plan::MemoryClass::kHost:
        sum.host += bytes;
        break;
    }
  }
  return sum;
}

}  // namespace coxswain::planner
