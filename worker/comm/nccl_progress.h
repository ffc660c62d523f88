// What the device has reached: a stream writes the number of a collective into host memory when it
// begins and again when it has ended, also from a replayed graph. No kernel and no wait.
#ifndef COXSWAIN_WORKER_COMM_NCCL_PROGRESS_H_
#define COXSWAIN_WORKER_COMM_NCCL_PROGRESS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/collectives.h"

namespace coxswain::comm {

// The progress is not thread-safe.
class NcclProgress {
 public:
  using Clock = std::chrono::steady_clock;

  // Fails with Internal when the driver gives no memory that both sides write, or no stream writes.
  static absl::StatusOr<std::unique_ptr<NcclProgress>> Create();
  ~NcclProgress();

  // Begin and End stand around the launches of call `ordinal` on communicator `lane` (0-2): its
  // operation is kept for as long as the call can be in progress.
  absl::Status Begin(int lane, uint64_t ordinal, std::string operation, cudaStream_t stream);
  absl::Status End(int lane, uint64_t ordinal, cudaStream_t stream);

  // Look is to be called often: how long a collective is in progress is measured between calls. Its
  // communicators are the lanes, without names and sizes.
  Progress Look(Clock::time_point now);

 private:
  static constexpr int kLanes = 3;
  struct Words {  // written by the device; the low 32 bits of a number
    volatile uint32_t started, finished;
  };
  struct Lane {
    uint32_t started = 0, finished = 0;  // as seen last
    uint64_t issued = 0;                 // newest call, as seen last
    Clock::time_point since;             // when any of them was seen to change
  };

  NcclProgress() = default;
  absl::Status Write(const volatile uint32_t* word, uint64_t value, cudaStream_t stream) const;
  uint64_t Number(uint32_t low) const;
  std::string OperationOf(uint64_t ordinal) const;

  decltype(&cuStreamWriteValue32_v2) write_ = nullptr;
  Words* words_ = nullptr;  // pinned, kLanes of them
  Lane lanes_[kLanes];
  uint64_t issued_[kLanes] = {};
  uint64_t newest_ = 0;
  std::map<uint64_t, std::string> captured_;  // calls that graphs replay
  std::deque<std::pair<uint64_t, std::string>> eager_;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_NCCL_PROGRESS_H_
