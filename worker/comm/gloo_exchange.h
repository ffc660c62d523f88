// What the ranks of a communicator send each other over Gloo's point-to-point buffers. Functions
// throw what Gloo throws; gloo.cc makes a status of it.
#ifndef COXSWAIN_WORKER_COMM_GLOO_EXCHANGE_H_
#define COXSWAIN_WORKER_COMM_GLOO_EXCHANGE_H_

#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include <gloo/rendezvous/context.h>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "worker/comm/members.h"

namespace coxswain::comm {

class GlooExchange {
 public:
  using Buffer = gloo::transport::UnboundBuffer;

  GlooExchange(std::shared_ptr<gloo::rendezvous::Context> mesh, std::chrono::milliseconds timeout);

  // The members of a communicator and the tags of its messages, equal on all of them.
  struct Channel {
    Members members;
    uint64_t next_tag = 0;
  };

  // T is float, double or BFloat16. See Collectives for the shapes.
  template <typename T>
  void AllReduce(Channel& channel, T* data, int64_t n);
  template <typename T>
  void ReduceScatter(Channel& channel, const T* send, T* receive, int64_t n);
  void AllGather(Channel& channel, const void* send, void* receive, int64_t bytes);

  // Any thread may wake a call in progress, which then throws.
  void Abort();
  void Close() { mesh_->closeConnections(); }

  // Names, after a call that threw, the ranks that the most was still expected from.
  const std::vector<int>& missing() const { return missing_; }

 private:
  class Call;
  template <typename T>
  void AllReduceDirect(Channel& channel, T* data, int64_t n);
  template <typename T>
  void AllReduceScattered(Channel& channel, T* data, int64_t n);
  template <typename T>
  std::vector<const T*> Slots(const Channel& channel, int half) const;

  const std::shared_ptr<gloo::rendezvous::Context> mesh_;
  const std::chrono::milliseconds timeout_;
  std::array<std::vector<char>, 2> scratch_;  // a slot of kSlotBytes for each rank
  std::vector<int> missing_;

  Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Buffer*> active_ ABSL_GUARDED_BY(mu_);  // of the call in progress
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_GLOO_EXCHANGE_H_
