// Sink over gRPC: a server-streaming call with a queue in front of it.
#ifndef COXSWAIN_CONTROLLER_API_QUEUED_WRITER_H_
#define COXSWAIN_CONTROLLER_API_QUEUED_WRITER_H_

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include <grpcpp/support/server_callback.h>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "common/net/grpc_status.h"
#include "controller/api/context.h"
#include "controller/runtime/loop.h"

namespace coxswain::api {

template <typename Response>
class QueuedWriter : public grpc::ServerWriteReactor<Response>,
                     public Sink<Response>,
                     public std::enable_shared_from_this<QueuedWriter<Response>> {
 public:
  explicit QueuedWriter(Loop* loop) : loop_(loop) {}

  // gRPC lets go of the reactor in OnDone; until then it keeps itself alive.
  void KeepAlive() { self_ = this->shared_from_this(); }

  void Send(const Response& response) override {
    MutexLock lock(mu_);
    if (finished_ || cancelled_) return;
    queue_.push_back(response);
    if (queue_.size() == 1) this->StartWrite(&queue_.front());
  }
  void Finish(const absl::Status& status) override {
    MutexLock lock(mu_);
    if (finished_) return;
    finished_ = true;
    if (queue_.empty()) {
      this->grpc::template ServerWriteReactor<Response>::Finish(ToGrpc(status));
    } else {
      final_ = ToGrpc(status);
    }
  }
  bool open() const override {
    MutexLock lock(mu_);
    return !finished_ && !cancelled_;
  }
  size_t pending() const override {
    MutexLock lock(mu_);
    return queue_.size();
  }
  void OnRoom(std::function<void()> callback) override {
    MutexLock lock(mu_);
    if (!done_) on_room_ = std::make_shared<std::function<void()>>(std::move(callback));
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mu_);
    queue_.pop_front();
    if (!ok) queue_.clear();
    if (!queue_.empty()) {
      this->StartWrite(&queue_.front());
    } else if (final_) {
      this->grpc::template ServerWriteReactor<Response>::Finish(*std::exchange(final_, {}));
    } else {
      Wake();
    }
  }
  void OnCancel() override {
    MutexLock lock(mu_);
    cancelled_ = true;
    Wake();
    if (finished_) return;
    finished_ = true;
    if (queue_.empty()) {
      this->grpc::template ServerWriteReactor<Response>::Finish(grpc::Status::CANCELLED);
    } else {
      final_ = grpc::Status::CANCELLED;
    }
  }
  void OnDone() override {
    std::shared_ptr<std::function<void()>> dead;
    {
      MutexLock lock(mu_);
      done_ = true;
      dead = std::move(on_room_);
    }
    // What the callback holds belongs to the loop.
    loop_->Post([self = std::move(self_), dead] {});
  }

 private:
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!on_room_) return;
    loop_->Post([weak = std::weak_ptr<std::function<void()>>(on_room_)] {
      if (auto callback = weak.lock()) (*callback)();
    });
  }

  Loop* const loop_;
  mutable Mutex mu_;
  std::deque<Response> queue_ ABSL_GUARDED_BY(mu_);  // front: being written
  std::optional<grpc::Status> final_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<std::function<void()>> on_room_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<QueuedWriter> self_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_QUEUED_WRITER_H_
