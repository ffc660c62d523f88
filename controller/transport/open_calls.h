// The gRPC calls of a transport that are in progress, and their way back to the loop.
#ifndef COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_
#define COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <grpcpp/client_context.h>

#include "controller/loop.h"

namespace coxswain {

// Thread-safe. Shared by the transport and its calls, which may outlive it.
class OpenCalls {
 public:
  explicit OpenCalls(Loop* loop) : loop_(loop) {}

  void Began(const std::shared_ptr<grpc::ClientContext>& context) {
    std::lock_guard lock(mu_);
    calls_.insert(context);
    if (closed_) context->TryCancel();
  }
  // `then` is posted unless the transport is gone. The last of `context`.
  void Ended(std::shared_ptr<grpc::ClientContext> context, Loop::Task then) {
    std::lock_guard lock(mu_);
    if (!closed_) loop_->Post(std::move(then));
    calls_.erase(context);
    context.reset();  // and with it its hold on the channel
    all_ended_.notify_all();
  }
  void Post(Loop::Task task) {
    std::lock_guard lock(mu_);
    if (!closed_) loop_->Post(std::move(task));
  }
  // Posts nothing more, and returns when gRPC has let go of all of them.
  void CancelAll() {
    std::unique_lock lock(mu_);
    closed_ = true;
    for (const auto& context : calls_) context->TryCancel();
    all_ended_.wait(lock, [this] { return calls_.empty(); });
  }

 private:
  Loop* const loop_;
  std::mutex mu_;
  std::condition_variable all_ended_;
  std::set<std::shared_ptr<grpc::ClientContext>> calls_;
  bool closed_ = false;
};

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_TRANSPORT_OPEN_CALLS_H_
