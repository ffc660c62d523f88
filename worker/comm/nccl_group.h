// The communicators of one rank over NCCL: formed in plan order, watched, ended as one.
#ifndef COXSWAIN_WORKER_COMM_NCCL_GROUP_H_
#define COXSWAIN_WORKER_COMM_NCCL_GROUP_H_

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "worker/comm/members.h"
#include "worker/comm/nccl_library.h"
#include "worker/comm/nccl_progress.h"

namespace coxswain::comm {

// NCCL's calls are made under one mutex, by the engine's thread and by the thread of this object,
// which looks for errors and ends all communicators at once when there is one. A communicator is
// non-blocking: what a call leaves to NCCL's own threads is polled for, with a deadline.
class NcclGroup {
 public:
  // Forms a group of several ranks; see Collectives::Form.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Form(const GroupConfig& config,
                                                         Rendezvous* rendezvous);
  // Ends the communicators. What graphs still hold of them must be gone.
  ~NcclGroup();

  const Members& members(Communicator comm) const { return members_[static_cast<int>(comm)]; }

  // Enqueues what `launch` launches on the communicator as the next collective. `launch` gets null
  // where this rank is alone in it.
  using Launch = std::function<ncclResult_t(ncclComm_t)>;
  absl::Status Enqueue(Communicator comm, const std::string& operation, cudaStream_t stream,
                       const Launch& launch);
  // Enqueues what `copies` launches as the next collective; it gets the number of the communicator
  // (0-2), which those of the same ranks share. It is not called where this rank is alone in the
  // communicator.
  using Copies = std::function<absl::Status(int lane)>;
  absl::Status EnqueueCopies(Communicator comm, const std::string& operation, cudaStream_t stream,
                             const Copies& copies);
  // `end_waits` is called once when the communicators are ended, before that.
  void OnEnd(std::function<void()> end_waits);
  // Waits until `stream` has got here, or until the timeout or something goes wrong.
  absl::Status Wait(cudaStream_t stream);

  absl::Status Poll() const;
  Progress progress() const;
  void Abort();

  const NcclLibrary& nccl() const { return *nccl_; }

 private:
  using Clock = std::chrono::steady_clock;

  explicit NcclGroup(const GroupConfig& config);
  absl::Status Meet(Rendezvous* rendezvous, Clock::time_point deadline);
  absl::StatusOr<std::string> Introduce(Rendezvous* rendezvous, Clock::time_point deadline);
  absl::Status Split(Communicator comm, Rendezvous* rendezvous, Clock::time_point deadline);
  // Until NCCL has done what it was asked for. mu_ is let go between looks.
  absl::Status Settle(ncclComm_t comm, ncclResult_t result, const std::string& call,
                      Clock::time_point deadline, Rendezvous* rendezvous)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Trouble() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Progress Look() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LookForTrouble() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Failed(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Name() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // of the call in progress
  void Watch();
  void EndAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const GroupConfig config_;
  std::array<Members, kCommunicators.size()> members_;
  // The place in comms_ of a communicator; those of the same ranks have one. -1: alone.
  std::array<int, kCommunicators.size()> lane_;
  const NcclLibrary* nccl_ = nullptr;
  int device_ = 0;

  mutable Mutex mu_;
  CondVar wake_;
  std::array<ncclComm_t, kCommunicators.size()> comms_ ABSL_GUARDED_BY(mu_){};
  std::unique_ptr<NcclProgress> marks_ ABSL_PT_GUARDED_BY(mu_);
  uint64_t issued_ ABSL_GUARDED_BY(mu_) = 0;
  mutable Progress progress_ ABSL_GUARDED_BY(mu_);  // as it was seen last
  std::function<void()> end_waits_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watch_;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_NCCL_GROUP_H_
