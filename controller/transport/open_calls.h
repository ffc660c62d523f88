// The gRPC calls of a transport that are in progress, and their way back to the loop.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_

#include <memory>
#include <set>
#include <utility>

#include <grpcpp/client_context.h>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "controller/runtime/loop.h"

namespace coxswain {

// The calls are thread-safe. They are shared by the transport and its calls, which may outlive it.
class OpenCalls {
 public:
  explicit OpenCalls(Loop* loop) : loop_(loop) {}

  void Began(const std::shared_ptr<grpc::ClientContext>& context) {
    MutexLock lock(mu_);
    calls_.insert(context);
    if (closed_) context->TryCancel();
  }
  // `then` is posted unless the transport is gone. The last of `context`.
  void Ended(std::shared_ptr<grpc::ClientContext> context, Loop::Task then) {
    MutexLock lock(mu_);
    if (!closed_) loop_->Post(std::move(then));
    calls_.erase(context);
    context.reset();  // and with it its hold on the channel
    all_ended_.NotifyAll();
  }
  void Post(Loop::Task task) {
    MutexLock lock(mu_);
    if (!closed_) loop_->Post(std::move(task));
  }
  // Posts nothing more, and returns when gRPC has let go of all of them.
  void CancelAll() {
    MutexLock lock(mu_);
    closed_ = true;
    for (const auto& context : calls_) context->TryCancel();
    all_ended_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return calls_.empty(); });
  }

 private:
  Loop* const loop_;
  Mutex mu_;
  CondVar all_ended_;
  std::set<std::shared_ptr<grpc::ClientContext>> calls_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_
