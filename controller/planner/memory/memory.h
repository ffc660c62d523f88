// Bytes of a plan by class.
#ifndef COXSWAIN_CONTROLLER_PLANNER_MEMORY_MEMORY_H_
#define COXSWAIN_CONTROLLER_PLANNER_MEMORY_MEMORY_H_

#include <cstdint>

#include "common/plan/plan.h"

namespace coxswain::planner {

// Device memory that NCCL takes for each communicator of several ranks: buffers of its channels,
// allocated when the gang forms. Source: two H200 over NVLink, NCCL 2.28.9, one communicator: a
// rank's measured peak is 1.39 GiB above its buffers, that of one GPU 0.54 GiB.
inline constexpr uint64_t kNcclBytesPerCommunicator = (uint64_t{85} << 30) / 100;

// Device memory for copies between GPUs, in addition to NCCL's: PeerCopies::kStagingBytes of
// worker/comm/peer_copies.h.
inline constexpr uint64_t kCopyStagingBytes = uint64_t{64} << 20;

// Bytes of a rank: its buffers by class, and memory outside of buffers.
struct MemoryByClass {
  uint64_t weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  uint64_t runtime = 0;        // plan::kCudaRuntimeBytes; 0 on the CPU
  uint64_t communication = 0;  // of NCCL and copies; 0 on the CPU and for one rank
  uint64_t host = 0;           // host memory, not part of total()
  // Bytes on the device; on the CPU all bytes.
  uint64_t total() const {
    return weights + gradients + optimizer + activations + workspace + runtime + communication;
  }
};

// `plan` must have its device, mesh and buffers.
MemoryByClass PlannedMemory(const plan::Plan& plan);

}  // namespace coxswain::planner

#endif  // COXSWAIN_CONTROLLER_PLANNER_MEMORY_MEMORY_H_
