// Collectives among the ranks of one epoch. nccl.cc (CUDA build) and gloo.cc (CPU build) both define
// this class; one of them is linked, nothing dispatches at run time.
#ifndef COXSWAIN_WORKER_COMM_COLLECTIVES_H_
#define COXSWAIN_WORKER_COMM_COLLECTIVES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/rendezvous.h"

namespace coxswain::comm {

struct GroupConfig {
  int rank = 0;
  int world_size = 1;
  std::string interface_address = "127.0.0.1";  // address the other ranks reach this one by
  std::chrono::milliseconds timeout{60000};     // of formation and of each collective
};

// Every call is collective: all ranks make the same calls in the same order. A peer that dies or is
// late gives Unavailable naming the operation and its ordinal. After Abort() every call, also one in
// progress, gives Cancelled. Results are equal on all ranks, bit for bit, and equal from run to run.
// Destroying a group closes its sockets at once: another rank still inside a call then gets
// Unavailable, so destroy when every rank's last result is known, or to abort.
class Collectives {
 public:
  // Forms the group and checks it by an all-reduce of rank ids. world_size 1 needs no rendezvous.
  static absl::StatusOr<std::unique_ptr<Collectives>> Form(const GroupConfig& config,
                                                           Rendezvous* rendezvous);
  ~Collectives();

  // data[0..n) becomes the sum over ranks, added in rank order in float32.
  absl::Status AllReduceSum(float* data, int64_t n);
  absl::Status AllReduceSum(double* data, int64_t n);
  absl::Status Barrier();
  // Any thread. Wakes a call in progress.
  void Abort();

  int rank() const;
  int world_size() const;
  uint64_t ordinal() const;  // collectives finished so far

 private:
  Collectives();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_COLLECTIVES_H_
